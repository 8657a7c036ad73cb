package gosdk_test

import (
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// The code of README.md, which has to compile.
var _ = []any{servePage, shareKeyOfPage, liftTimeoutOfPage}

func servePage(getServer func(*http.Request) *mcp.Server, opts *mcp.StreamableHTTPOptions) error {
	a, err := gosdk.New(nil) // once a process
	if err != nil {
		return err
	}
	h, err := a.Handler(getServer, opts) // was: mcp.NewStreamableHTTPHandler(getServer, opts)
	if err != nil {
		return err
	}
	http.Handle("/mcp", h)
	return nil
}

func shareKeyOfPage() error {
	ring, err := keys.KeyringFromEnv(os.LookupEnv, "STATE_KEYS")
	if err != nil {
		return err
	}
	a, err := gosdk.New(&gosdk.Options{Options: roundtrip.Options{
		Sealer: ring, RequireSharedKey: true, Audience: "files.example.com",
	}})
	_ = a
	return err
}

func liftTimeoutOfPage(h http.Handler) {
	http.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		h.ServeHTTP(w, r)
	})
}
