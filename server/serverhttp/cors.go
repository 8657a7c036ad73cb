package serverhttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

const (
	// preflightMaxAge is how long a browser may reuse the answer to a preflight.
	// It changes with a deployment; without it browsers ask every five seconds.
	preflightMaxAge = 10 * time.Minute
	// maxRequestHeaders is how many headers of a preflight are looked at: those
	// of the protocol and the 64 Mcp-Param-* that a tool can have, and some.
	maxRequestHeaders = 80
	// maxParamHeader bounds the name of one. Those of tools are words.
	maxParamHeader = 128
)

// corsRequestHeaders are the headers that pages may send, beside those that need
// no permission and Mcp-Param-*: what the protocol has, and what authenticates.
const corsRequestHeaders = "Accept, Authorization, Content-Type, Last-Event-ID, " +
	"Mcp-Method, Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id"

// corsResponseHeaders are the headers that pages may read. Without them a client
// in a browser could neither keep a session nor authenticate.
const corsResponseHeaders = "Mcp-Session-Id, Retry-After, WWW-Authenticate, " +
	rules.HeaderOutcome

// addCORS adds what lets a page read the response, if its origin is one of AllowedOrigins, to the
// letter. Others get nothing: those of the same origin need nothing. Credentials of the browser's
// own, such as cookies, are never admitted: every page could use those.
func (h *Handler) addCORS(response, request http.Header) (listed bool) {
	if len(h.origins) == 0 {
		return false
	}
	response.Add("Vary", "Origin") // whatever the answer: a cache must not give it to another page
	lines := request["Origin"]
	if len(lines) != 1 || !h.origins[lines[0]] {
		return false
	}
	response["Access-Control-Allow-Origin"] = []string{lines[0]}
	response["Access-Control-Expose-Headers"] = []string{corsResponseHeaders}
	return true
}

// isPreflight reports whether a browser asks whether a page may send a request
// (Fetch standard, "CORS-preflight request").
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header["Access-Control-Request-Method"]) == 1
}

// answerPreflight says what a page of a listed origin may send. It comes before authentication,
// since browsers send no credentials with it, and tells nothing that is not the same for everybody.
func (h *Handler) answerPreflight(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Add("Vary", "Access-Control-Request-Headers")
	header.Set("Access-Control-Allow-Methods", h.allowedMethods())
	header.Set("Access-Control-Allow-Headers",
		appendParamHeaders(corsRequestHeaders, r.Header["Access-Control-Request-Headers"]))
	header.Set("Access-Control-Max-Age", strconv.Itoa(int(preflightMaxAge/time.Second)))
	w.WriteHeader(http.StatusNoContent)
}

// appendParamHeaders adds to a list of header names those of Mcp-Param-* that a
// page wants to send. Which of them there are is a matter of the tools.
func appendParamHeaders(allowed string, requested []string) string {
	var b strings.Builder
	b.WriteString(allowed)
	looked := 0
	for _, line := range requested {
		for name := range strings.SplitSeq(line, ",") {
			if looked++; looked > maxRequestHeaders {
				return b.String()
			}
			name = strings.Trim(name, " \t")
			n := len(rules.ParamPrefix)
			if len(name) > n && len(name) <= maxParamHeader &&
				strings.EqualFold(name[:n], rules.ParamPrefix) && rules.IsToken(name[n:]) {
				b.WriteString(", " + name)
			}
		}
	}
	return b.String()
}
