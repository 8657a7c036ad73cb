package serverhttp

import (
	"net/http"

	"github.com/rondo-mcp/rondo/server"
)

// maxKept is the longest header value that a request keeps, in bytes: a call
// may wait for a person long after its connection is gone, and there may be
// thousands. A longer one is no token of any issuer's.
const maxKept = 4 << 10

// describeSender notes what a log may say of where a request comes from, and
// what it must not say.
func describeSender(in *server.Incoming, r *http.Request) {
	in.RemoteAddr = r.RemoteAddr
	in.TraceParent = keptValue(r.Header["Traceparent"])
	for _, values := range [...][]string{r.Header["Authorization"], r.Header["Cookie"], r.Header["X-Api-Key"]} {
		if in.Credential = keptValue(values); in.Credential != "" {
			return
		}
	}
}

func keptValue(values []string) string {
	if len(values) == 0 || len(values[0]) > maxKept {
		return ""
	}
	return values[0]
}
