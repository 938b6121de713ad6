"""Rules that users state plainly, and ordinary prompts, which hold none: the detection is measured on both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from engine.compaction.user_rules import directives_in

STATEMENTS: Final = """
The port stays 7431.
We use pnpm here.
Write tests first.
Write the failing test first.
The API is frozen.
Python 3.9 is our minimum.
Our minimum is Python 3.9.
The schema remains at version 12.
The public names stay.
Tests first, then code.
This project uses Poetry.
This repository targets Node 18.
We're on Django 4.2.
We are using Bazel for builds.
We deploy from the release branch.
We support Windows as well.
We write commit messages in the imperative.
Commit messages are in the imperative.
Migrations are append-only.
The lockfile is generated.
The main branch is protected.
The main branch is called trunk.
Amounts are in cents.
Timestamps are UTC.
Dates are ISO 8601.
Names are snake_case.
Functions are camelCase.
Warnings are errors.
Treat warnings as errors.
The line length is 100.
Line length: 100.
Max line length 100.
Four spaces for indentation.
Tabs for indentation.
Double quotes.
Type hints everywhere.
Errors go to stderr.
Logs go through structlog.
New files go under src/.
Put new tests in tests/unit.
The configuration lives in conf/app.toml.
Secrets live in Vault.
Tests live next to the code.
All functions have type hints.
All dates are in UTC.
Follow PEP 8.
Follow the existing style.
Follow the conventions of the module.
One commit per change.
Make small commits.
Small commits, please.
Run make lint before committing.
Ask before you delete anything.
Check with me before pushing.
I like short functions.
I hate mocks.
I prefer composition over inheritance.
Call me Ana.
Be brief.
Keep answers short.
Reply in short sentences.
Answer in French.
Work on the branch feature/login.
Stay on Python 3.9.
Let's stay with Flask.
Let's go with SQLite.
Go with SQLite.
We go with PostgreSQL.
The database is PostgreSQL.
The license is MIT.
The port is 7431.
The limit is 40 MB.
Timeout: 30 seconds.
The module is called billing.
Name the package billing.
Name tests after the behaviour.
Assume a 64-bit system.
Indent with two spaces.
Prefix branches with the ticket number.
Sign your commits.
Stop after the second step.
Wait for my approval.
Show me the plan first.
Plan first, code later.
Comments are in English.
The staging server is off limits.
Deprecated functions stay until 3.0.
Der Port bleibt 7431.
Wir benutzen hier pnpm.
Schreib zuerst die Tests.
Le port reste 7431.
On utilise pnpm ici.
Écris d'abord les tests.
El puerto sigue siendo 7431.
Aquí usamos pnpm.
Escribe primero las pruebas.
La porta resta 7431.
Qui usiamo pnpm.
De poort blijft 7431.
Порт остаётся 7431.
Мы используем pnpm.
端口保持 7431。
我们用 pnpm。
先写测试。
ここでは pnpm を使います。
ポートは 7431 のままです。
여기서는 pnpm을 사용합니다.
The timeout stays at 30 seconds.
The version number remains 2.1.
We use yarn in this repo.
We use 4 spaces.
Write the tests before the code.
Tests come first.
Our code style is Black.
We run Postgres 14 in production.
The backend is written in Go.
The project is Python 3.10 only.
Our CI runs on Node 16.
We ship on Thursdays.
Branch names start with the ticket id.
The public interface is fixed.
The database schema is off the table.
Commit after each step.
Run the linter after every edit.
Ask me before installing anything.
Small functions, please.
Plain SQL, no ORM.
Everything in English.
Documentation goes in docs/.
The test database is called app_test.
Credentials come from the environment.
The server listens on port 7431.
The port number is 7431.
Port 7431.
Indentation is two spaces.
The default branch is develop.
I work on Windows.
I'm on macOS.
We log with structlog.
We're a Rust shop.
The style guide is Google's.
The build uses Bazel.
Money is stored in cents.
Time zones are always UTC.
The CLI has to stay fast.
Make it work with Python 3.8.
Stdlib only.
Just the standard library.
Pure functions where possible.
Dataclasses over dicts.
Explain your plan first.
Let me review before you commit.
Leave the comments in place.
The tests stay green.
snake_case for functions.
Use pytest.
pytest is our test runner.
The folder legacy/ is untouchable.
Nobody edits generated files.
We don't use classes.
Keep the old endpoint.
The feature flag defaults to off.
Errors are logged as JSON.
Respond in bullet points.
Short answers.
The reviewer is Bob.
Releases are tagged v1.2.3.
The build stays on Java 11.
We write everything in TypeScript.
Tests live in spec/.
Tests before code.
First the tests, then the code.
The output format stays JSON.
This repo is pnpm, not npm.
pnpm is the package manager.
The package manager is pnpm.
We pin versions.
Versions are pinned.
We test with pytest.
We keep functions under thirty lines.
Function names are verbs.
The team writes British English.
British spelling, please.
The customer runs Windows Server 2019.
Target platform: Raspberry Pi.
The deploy script is run by hand.
I review every change.
Explain each step.
The old API stays available.
Backwards compatibility matters.
Performance matters more than readability.
Readability over speed.
Speak plainly.
Report in German.
Docs are written in Markdown.
The changelog follows Keep a Changelog.
Versioning is semantic.
We follow trunk-based development.
The id column is a UUID.
Passwords are hashed with argon2.
The endpoint stays at /v1/items.
Log lines are JSON.
""".strip().splitlines()

ORDINARY: Final = """
Fix the login bug.
Add a test for the parser.
Write a function that parses dates.
Rename foo to bar in the whole module.
Run the tests and tell me what you see.
Can you explain how the cache works?
Why does this fail on Windows?
What does the scheduler do?
Refactor the billing module.
Update the README with the new flags.
The login page is broken.
The tests fail with a timeout.
It crashes when I click on save.
The build is red since yesterday.
The error is a TypeError in parser.py.
The message is: cannot read property x of undefined.
I get a 404 when I open the page.
I see two warnings in the log.
I think the problem is in the cache.
I tried to restart the server.
I have added the file.
I just pushed a change to the branch.
I updated the configuration, try again.
Here is the log.
Here is the stack trace from production.
Look at src/app.py.
Look at the failing test and find the cause.
Thanks, that works.
Great, go on.
Yes.
Go ahead.
Continue.
Looks good to me.
That is wrong.
It still fails.
The same error again.
Now it hangs at startup.
The function returns None for empty input.
The endpoint returns 500 if the body is empty.
The page takes ten seconds to load.
The user clicks on the button and nothing changes on the screen.
The customers complain about slow searches.
We have a Flask application with three services.
We have seen this in production twice.
We got a report from a customer.
We saw a memory leak last week.
We need a new endpoint for exports.
Our server is down.
Our tests are flaky.
All tests are failing.
All tests pass now.
Some of the tests are slow.
Please implement the feature described in the ticket.
Please add logging to the worker.
Implement pagination for the users table.
Create a new React component for the sidebar.
Convert this script to TypeScript.
Add type hints to utils.py.
Add docstrings to the public functions.
Remove the dead code in handlers.py.
Move the helper functions into a module.
Delete the old migration files.
Bump the version to 2.4.0.
Upgrade pandas to the latest version.
Install the dependencies and start the server.
Commit this and open a pull request.
Commit the changes.
Revert the last commit.
Merge main into this branch.
Show me the diff.
Show me where the token is validated.
Explain the difference between the two functions.
Summarise what you did.
How do I run the migrations?
Is there a way to speed this up?
Could you check whether the index is used?
Does it work with Python 3.12?
Which version of Node do we use?
Where does the configuration live?
What is the port of the server?
Should we use a queue here?
Try it with a larger batch.
Try again.
Make the button blue.
Make it faster.
Make the sidebar collapsible.
Let me know what you think.
Let me look at that.
I'll test it tomorrow.
I am not at my desk now.
The problem remains.
The spinner stays on the screen.
The bug is fixed now.
The function is called twice.
The request goes to the wrong host.
The value is 3 but I expected 4.
The list is empty.
The variable is undefined.
The picture shows the result.
The first row is a header.
It looks like the cache is stale.
It seems that the queue is full.
It happens on every second request.
It worked last week.
There is a race between the writer and the reader.
There are two implementations of this.
This function sorts the records by date.
This is the output of the command.
This was introduced in the last release.
Start with the parser.
Start the server and check the log.
Use the debugger to find the leak.
Check the logs for errors.
Find all usages of the old client.
Search for TODO comments in the code.
Compare the results with the expected output.
Generate a migration for the new column.
Write a test for it.
Write documentation for the new option.
Draft an email to the customer.
Translate the strings into German.
Profile the import and tell me what is slow.
Design a schema for the audit log.
Split this file into smaller modules.
Extract the validation into its own class.
Replace the regular expression with a parser.
Inline the helper.
Sort the imports.
Format the file.
Lint the package and fix what it finds.
Open the file and read the header.
Print the result as JSON.
Read the specification and list the gaps.
Do the same for the other tests.
Do it for the reader too.
Next, the second ticket.
And the third one?
Good morning!
Hmm, strange.
OK, and what about the other one?
Was macht diese Funktion?
Behebe den Fehler im Parser.
Die Tests schlagen fehl.
Corrige le bug de connexion.
Les tests échouent.
Arregla el error de inicio de sesión.
Исправь ошибку входа.
修复登录错误。
テストが失敗します。
테스트가 실패합니다.
Help me debug the websocket reconnect logic.
Our users report that exports time out.
I added a print and it shows 5.
The dropdown closes when I hover over it.
The CSV has 4 columns and 200 rows.
Why is the response empty?
We migrated to the new cluster last month.
The diff looks fine.
Here are the results of the run.
Let's fix the tests now.
Let's look at the parser.
Let's see.
Start over.
What is left to do?
Can we make this async?
Write a script that uploads files to S3.
Add a column to the table.
Set up a Docker file for the worker.
Implement the interface in storage.py.
Add error handling to the client.
The class has 400 lines.
The function takes two arguments.
The job runs at midnight and takes an hour.
This line throws an exception.
The button is on the left side.
The service talks to Redis.
The response has a field named id.
The code is in src/app.
The test is in tests/test_app.py.
My laptop is slow today.
I will be back in an hour.
I want to add a new feature.
I want you to write a parser.
I have a question about the cache.
We want to launch next week.
We discussed this in the meeting.
We are seeing timeouts.
We are going to add a queue.
Give me a summary of the module.
List all endpoints.
Count the lines in each file.
Increase the timeout to 60.
Change the color of the header.
Change the port to 8080.
Rename the branch to main.
Check if the index exists.
Make a plan for the migration.
Undo that.
Wait, that broke something.
Stop the server.
Follow the stack trace and find the cause.
Work on the next ticket.
Put the button in the header.
Put this function into utils.
Go with the second option.
OK do it.
Sounds good, proceed.
The output is below.
The second argument is a callback.
The graph shows a spike on Monday.
Name three alternatives.
Name a few risks.
Write in the changelog what changed.
Answer the question in the ticket.
Log the request id as well.
First, read the file.
First the parser, then the printer.
The docs are outdated.
Files are missing in the archive.
Tests are slow.
Users are confused.
Images are blurry.
The results are in results.csv.
The user is logged out.
The date is in the wrong format.
The answer is 42.
The count is 12.
Status is 500.
The button is red.
The client is Chrome.
The api returns a list of users.
This commit breaks the build.
I moved the file to src.
The parser reads tokens one by one.
Clean up the imports.
Document the new endpoint.
Write unit tests for the cart.
We noticed a regression.
We ran the benchmark again.
The migration adds a column.
The page is blank.
The script prints a warning.
The cart is empty after login.
Find out why it is slow.
Could be a cache thing.
Maybe the index is missing.
The menu opens twice.
The dog ate my homework.
Paste the output here.
Show the first ten rows.
Which file is it?
The second test fails.
It used to work.
I can reproduce it.
I believe the lock is held too long.
Everything else is fine.
Nice work.
Now the frontend.
Then update the docs.
Finish the refactoring.
Debug this.
Make a screenshot.
The table has a new column called status.
The config is loaded from disk.
The thread waits for the queue.
The icon is next to the title.
Deploy it to staging.
Benchmark both versions.
Port the tool to Rust.
Simplify the loop.
Style the button.
Commits are missing from the log.
Port this to Python.
Style: the button looks odd.
Tests pass on CI.
Plain text would be better.
Short version: it broke.
Simple question.
Max reported a bug.
""".strip().splitlines()


def pinned(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if list(directives_in(line))]


@pytest.mark.parametrize("text", STATEMENTS)
def test_plain_statement_is_a_rule(text: str) -> None:
    assert list(directives_in(f"{text}\nThe page is slow.")) == [text]


def test_ordinary_prompts_are_seldom_pinned() -> None:
    wrong = pinned(ORDINARY)
    assert len(wrong) <= len(ORDINARY) * 0.05, wrong
