"""File types for `grep`, by name. Our own table, so that results don't depend on ripgrep's version."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

_CPP_HEADERS: Final = ("*.h", "*.hh", "*.hpp", "*.hxx", "*.inl")

TYPES: Final = MappingProxyType(
    {
        "asm": ("*.asm", "*.s", "*.S"),
        "bazel": ("*.bazel", "*.bzl", "BUILD", "WORKSPACE"),
        "c": ("*.c", "*.h"),
        "clojure": ("*.clj", "*.cljc", "*.cljs"),
        "cmake": ("*.cmake", "CMakeLists.txt"),
        "config": ("*.cfg", "*.conf", "*.config", "*.ini"),
        "cpp": ("*.C", "*.cc", "*.cpp", "*.cxx", *_CPP_HEADERS),
        "csharp": ("*.cs", "*.csx"),
        "css": ("*.css", "*.less", "*.sass", "*.scss"),
        "csv": ("*.csv", "*.tsv"),
        "cuda": ("*.cu", "*.cuh"),
        "dart": ("*.dart",),
        "docker": ("*Dockerfile*", "*.dockerfile", "docker-compose*.yml", "docker-compose*.yaml"),
        "elixir": ("*.ex", "*.exs", "*.eex", "*.heex"),
        "erlang": ("*.erl", "*.hrl"),
        "fortran": ("*.f", "*.f90", "*.f95", "*.for"),
        "fsharp": ("*.fs", "*.fsi", "*.fsx"),
        "go": ("*.go", "go.mod", "go.sum"),
        "graphql": ("*.gql", "*.graphql"),
        "haskell": ("*.hs", "*.lhs"),
        "html": ("*.htm", "*.html", "*.xhtml"),
        "java": ("*.java",),
        "js": ("*.cjs", "*.js", "*.jsx", "*.mjs", "*.vue"),
        "json": ("*.json", "*.json5", "*.jsonc", "*.jsonl", "*.ndjson"),
        "julia": ("*.jl",),
        "kotlin": ("*.kt", "*.kts"),
        "log": ("*.log",),
        "lua": ("*.lua",),
        "make": ("*.mak", "*.mk", "Makefile*", "makefile", "GNUmakefile"),
        "markdown": ("*.markdown", "*.md", "*.mdx"),
        "nix": ("*.nix",),
        "objc": ("*.h", "*.m", "*.mm"),
        "ocaml": ("*.ml", "*.mli"),
        "perl": ("*.pl", "*.pm", "*.t"),
        "php": ("*.php", "*.phtml"),
        "powershell": ("*.ps1", "*.psd1", "*.psm1"),
        "protobuf": ("*.proto",),
        "py": ("*.py", "*.pyi", "*.pyx"),
        "r": ("*.R", "*.Rmd", "*.r"),
        "rst": ("*.rst",),
        "ruby": ("*.gemspec", "*.rake", "*.rb", "Gemfile", "Rakefile"),
        "rust": ("*.rs",),
        "scala": ("*.sbt", "*.sc", "*.scala"),
        "sh": ("*.bash", "*.sh", "*.zsh", ".bashrc", ".profile", ".zshrc"),
        "solidity": ("*.sol",),
        "sql": ("*.psql", "*.sql"),
        "svelte": ("*.svelte",),
        "swift": ("*.swift",),
        "terraform": ("*.tf", "*.tfvars"),
        "tex": ("*.bib", "*.cls", "*.sty", "*.tex"),
        "toml": ("*.toml",),
        "ts": ("*.cts", "*.mts", "*.ts", "*.tsx"),
        "txt": ("*.txt",),
        "verilog": ("*.sv", "*.svh", "*.v", "*.vh"),
        "vim": ("*.vim", ".vimrc"),
        "vue": ("*.vue",),
        "xml": ("*.xml", "*.xsd", "*.xsl", "*.xslt"),
        "yaml": ("*.yaml", "*.yml"),
        "zig": ("*.zig",),
    }
)

# Other names that models use.
ALIASES: Final = MappingProxyType(
    {
        "bash": "sh",
        "c++": "cpp",
        "cs": "csharp",
        "dockerfile": "docker",
        "golang": "go",
        "javascript": "js",
        "jsx": "js",
        "makefile": "make",
        "md": "markdown",
        "proto": "protobuf",
        "python": "py",
        "rb": "ruby",
        "rs": "rust",
        "shell": "sh",
        "tf": "terraform",
        "tsx": "ts",
        "typescript": "ts",
        "yml": "yaml",
    }
)


def names_of(name: str) -> tuple[str, ...] | None:
    """Return the globs of a file type; None if there is no such type."""
    lower = name.lower().removeprefix(".")
    return TYPES.get(ALIASES.get(lower, lower))
