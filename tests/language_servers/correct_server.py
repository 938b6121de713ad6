"""A language server made with pygls, which finds an error in each line with BAD; with "pull", it is asked for it."""

from __future__ import annotations

import sys

from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("correct", "1")


def problems(uri: str) -> list[types.Diagnostic]:
    found: list[types.Diagnostic] = []
    for number, line in enumerate(server.workspace.get_text_document(uri).lines):
        if "BAD" in line:
            start = types.Position(number, line.index("BAD"))
            end = types.Position(number, line.index("BAD") + 3)
            place = server.workspace.get_text_document(uri).position_codec.range_to_client_units(
                server.workspace.get_text_document(uri).lines, types.Range(start, end)
            )
            found.append(
                types.Diagnostic(place, "BAD is wrong", types.DiagnosticSeverity.Error, "E1", source="correct")
            )
    return found


def publish(uri: str) -> None:
    version = server.workspace.get_text_document(uri).version
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, problems(uri), version))


if "pull" in sys.argv:

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, types.DiagnosticOptions(False, False))
    def pulled(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        return types.RelatedFullDocumentDiagnosticReport(problems(params.text_document.uri))

else:

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        publish(params.text_document.uri)


server.start_io()
