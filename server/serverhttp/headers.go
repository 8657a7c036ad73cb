package serverhttp

import (
	"errors"
	"net/http"
	"strings"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// Headers that mirror the body, in net/http's spelling (streamable-http, "Request Metadata").
const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
)

// checkHeaders refuses a modern request whose headers, which proxies use, differ from its body.
func checkHeaders(header http.Header, admitted *server.Admission) {
	request := admitted.Request()
	if e := vetVersion(header[headerVersion], request.Meta.Version); e != nil {
		admitted.ReplaceRefusal(e)
		return
	}
	if e := request.Refusal(); e != nil &&
		(request.Meta.Version == "" || e.Code == protocol.CodeUnsupportedProtocolVersion) {
		return // the other headers depend on an unknown version
	}
	if e := vetHeader("Mcp-Method", header[headerMethod], request.Message.Method); e != nil {
		admitted.ReplaceRefusal(e)
		return
	}
	if request.Refusal() == nil && admitted.NamesTarget() {
		request.Refuse(vetName(header[headerName], request.Target))
	} else if len(header[headerName]) > 1 {
		request.Refuse(repeatedHeader("Mcp-Name"))
	}
	checkParamHeaders(header, admitted)
}

func checkParamHeaders(header http.Header, admitted *server.Admission) {
	request := admitted.Request()
	if request.Refusal() != nil {
		return
	}
	if err := admitted.CheckParamHeaders(header); err != nil {
		request.Refuse(protocol.Errorf(protocol.CodeHeaderMismatch, "%v", err))
	}
}

// vetVersion checks the version header, which must be supported if _meta names no version.
func vetVersion(lines []string, declared protocol.Version) *protocol.Error {
	if value := trimSpace(firstLine(lines)); declared == "" && len(lines) <= 1 {
		if value != string(protocol.V20260728) {
			return protocol.UnsupportedVersion(value, rules.ModernRevisions())
		}
		return nil
	}
	return vetHeader("MCP-Protocol-Version", lines, string(declared))
}

func vetName(lines []string, target string) *protocol.Error {
	value, e := oneValue("Mcp-Name", lines)
	if e != nil {
		return e
	}
	decoded, err := rules.DecodeValue(value)
	switch {
	case err != nil:
		return protocol.Errorf(protocol.CodeHeaderMismatch, "Mcp-Name header %s cannot be decoded",
			errtext.Quote(value, maxQuoted))
	case decoded != target:
		return headerMismatch("Mcp-Name", decoded, target)
	}
	return nil
}

func vetHeader(name string, lines []string, want string) *protocol.Error {
	value, e := oneValue(name, lines)
	if e == nil && value != want {
		e = headerMismatch(name, value, want)
	}
	return e
}

func oneValue(name string, lines []string) (string, *protocol.Error) {
	value := trimSpace(firstLine(lines))
	switch {
	case len(lines) > 1:
		return "", repeatedHeader(name)
	case value == "":
		return "", protocol.Errorf(protocol.CodeHeaderMismatch, "%s header is missing", name)
	}
	return value, nil
}

// checkNotificationHeaders checks the optional headers of a notification.
func checkNotificationHeaders(header http.Header, n *protocol.Notification) *protocol.Error {
	version := header[headerVersion]
	if v := protocol.Version(trimSpace(firstLine(version))); len(version) > 1 {
		return repeatedHeader("MCP-Protocol-Version")
	} else if v != "" && v != protocol.V20260728 {
		return protocol.UnsupportedVersion(string(v), rules.ModernRevisions())
	}
	if lines := header[headerMethod]; len(lines) > 0 {
		return vetHeader("Mcp-Method", lines, n.Method)
	}
	return nil
}

// checkGivenHeaders compares a legacy POST's optional headers, which proxies use, with its body.
func checkGivenHeaders(header http.Header, d *legacyPost) *fault {
	methods, names := header[headerMethod], header[headerName]
	if len(methods)+len(names) == 0 {
		return nil
	}
	for _, request := range d.requests {
		if e := vetGivenBy(methods, names, request.Method, request.Params); e != nil {
			f := badRequestFault(words.RefusedHeaders, "invalid request: %s",
				e.Message).withRequestID(d)
			f.cause = errors.New("Mcp-Method or Mcp-Name does not agree with the body, so " +
				"a proxy that authorized the request by them saw a different one")
			return f
		}
	}
	for _, m := range d.others {
		method := ""
		if n, ok := m.(*protocol.Notification); ok {
			method = n.Method
		}
		if e := vetGivenBy(methods, names, method, nil); e != nil {
			return badRequestFault(words.RefusedHeaders, "invalid request: %s", e.Message)
		}
	}
	return nil
}

// vetGivenBy checks the given headers against one message. A response has no method.
func vetGivenBy(methods, names []string, method string, params []byte) *protocol.Error {
	if len(methods) > 0 {
		if e := vetHeader("Mcp-Method", methods, method); e != nil {
			return e
		}
	}
	switch {
	case len(names) == 0:
		return nil
	case len(names) > 1:
		return repeatedHeader("Mcp-Name")
	case !protocol.MultiRoundTrip(method):
		return nil // no name
	}
	key := "name"
	if method == protocol.MethodReadResource {
		key = "uri"
	}
	target, ok := textMember(params, key)
	if !ok {
		return protocol.Errorf(protocol.CodeHeaderMismatch,
			"Mcp-Name header is present, but params have no %s", key)
	}
	return vetName(names, target)
}

// textMember returns a string member of an undecoded object.
func textMember(object []byte, name string) (string, bool) {
	var text string
	found := false
	err := jsonx.Members(object, func(key, value []byte) (err error) {
		if string(key) == name {
			found = true
			text, err = jsonx.Text(value)
		}
		return err
	})
	return text, found && err == nil
}

func repeatedHeader(name string) *protocol.Error {
	return protocol.Errorf(protocol.CodeHeaderMismatch, "%s header occurs more than once", name)
}

func headerMismatch(name, header, body string) *protocol.Error {
	return protocol.Errorf(protocol.CodeHeaderMismatch, "%s header is %s, but the body says %s",
		name, errtext.Quote(header, maxQuoted), errtext.Quote(body, maxQuoted))
}

const maxQuoted = 64 // bytes of client input in an error

func firstLine(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// trimSpace removes white space around a header value, which HTTP/2 keeps.
func trimSpace(s string) string {
	if s != "" && s[0] > ' ' && s[len(s)-1] > ' ' {
		return s // fast path, ten times faster
	}
	return strings.Trim(s, " \t")
}
