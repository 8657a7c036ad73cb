package serverhttp

import (
	"mime"
	"net/http"
	"strings"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

// The media types of the transport.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

// checkMedia refuses bodies that are not plain JSON and clients that take neither
// kind of response, and notes which kinds this one takes.
func (rw *responseWriter) checkMedia(header http.Header) *fault {
	if !isJSON(header["Content-Type"]) {
		return &fault{status: http.StatusUnsupportedMediaType, reason: words.RefusedMediaType,
			err: protocol.Errorf(protocol.CodeInvalidRequest,
				"Content-Type header must be %s, in UTF-8", typeJSON)}
	}
	for _, coding := range header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return &fault{status: http.StatusUnsupportedMediaType,
				reason: words.RefusedMediaType, header: "Accept-Encoding", value: "identity",
				err: protocol.Errorf(protocol.CodeInvalidRequest,
					"Content-Encoding header must be identity or absent")}
		}
	}
	json, events := acceptedForms(header["Accept"])
	rw.jsonOnly, rw.eventsOnly = json && !events, events && !json
	if !json && !events {
		return notAcceptable(protocol.ID{}, typeJSON+" or "+typeEvents)
	}
	return nil
}

// notAcceptable is the fault of a client that does not take what a response needs.
func notAcceptable(id protocol.ID, types string) *fault {
	return &fault{status: http.StatusNotAcceptable, reason: words.RefusedAccept, id: id,
		err: protocol.Errorf(protocol.CodeInvalidRequest, "Accept header must admit %s", types)}
}

// isJSON reports whether a Content-Type is JSON. Other encodings than UTF-8 do
// not exist for it (RFC 8259), a charset that says otherwise is believed.
func isJSON(lines []string) bool {
	if len(lines) != 1 {
		return false
	}
	if lines[0] == typeJSON {
		return true
	}
	media, params, err := mime.ParseMediaType(lines[0])
	if err != nil || media != typeJSON {
		return false
	}
	charset, given := params["charset"]
	return !given || strings.EqualFold(charset, "utf-8")
}
