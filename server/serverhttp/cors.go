package serverhttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

const (
	// preflightMaxAge is how long browsers may cache a preflight; their default is five seconds.
	preflightMaxAge = 10 * time.Minute
	// maxRequestHeaders limits the headers read from a preflight: a tool may have 64 Mcp-Param-*.
	maxRequestHeaders = 80
	maxParamHeader    = 128 // of an Mcp-Param-* header
)

// corsRequestHeaders need permission, besides Mcp-Param-*.
const corsRequestHeaders = "Accept, Authorization, Content-Type, Last-Event-ID, " +
	"Mcp-Method, Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id"

// corsResponseHeaders are the headers that pages may read.
const corsResponseHeaders = "Mcp-Session-Id, Retry-After, WWW-Authenticate, " +
	rules.HeaderOutcome

// addCORS adds the headers that let a page of AllowedOrigins read the response. Credentials that
// browsers add themselves, such as cookies, are never allowed: any page could use them.
func (h *Handler) addCORS(response, request http.Header) (listed bool) {
	if len(h.origins) == 0 {
		return false
	}
	response.Add("Vary", "Origin") // always: a cache must not serve it to other pages
	lines := request["Origin"]
	if len(lines) != 1 || !h.origins[lines[0]] {
		return false
	}
	response["Access-Control-Allow-Origin"] = []string{lines[0]}
	response["Access-Control-Expose-Headers"] = []string{corsResponseHeaders}
	return true
}

// answerPreflight answers a listed origin's preflight before authentication, because browsers send
// no credentials with it. The response is the same for every caller.
func (h *Handler) answerPreflight(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Add("Vary", "Access-Control-Request-Headers")
	header.Set("Access-Control-Allow-Methods", h.allowedMethods())
	header.Set("Access-Control-Allow-Headers",
		appendParamHeaders(corsRequestHeaders, r.Header["Access-Control-Request-Headers"]))
	header.Set("Access-Control-Max-Age", strconv.Itoa(int(preflightMaxAge/time.Second)))
	w.WriteHeader(http.StatusNoContent)
}

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
