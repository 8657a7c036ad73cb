package bearer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// wellKnown comes before the resource's path (RFC 9728, section 3.1).
const wellKnown = "/.well-known/oauth-protected-resource"

// prepareMetadata makes the document of [ResourceServer.Metadata], its path and its URL.
func (g *ResourceServer) prepareMetadata() error {
	u, err := url.Parse(g.opts.Resource)
	if err != nil {
		return err
	}
	path := u.EscapedPath()
	if path == "/" {
		path = "" // RFC 9728 removes the slash of an origin, but keeps the slash of a path
	}
	g.metadataPath = wellKnown + path
	g.metadataURL = u.Scheme + "://" + u.Host + g.metadataPath
	document := struct {
		Resource string   `json:"resource"`
		Issuers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
		Name     string   `json:"resource_name,omitempty"`
	}{g.opts.Resource, nil, g.opts.Supported, []string{"header"}, g.opts.Name}
	for _, issuer := range g.opts.Issuers {
		at := cmp.Or(issuer.LoginURL, issuer.URL)
		if !slices.Contains(document.Issuers, at) {
			document.Issuers = append(document.Issuers, at)
		}
	}
	g.metadata, err = json.Marshal(document)
	return err
}

// Metadata returns a handler of the resource's metadata (RFC 9728), and its path on the origin of
// [Options].Resource. It answers GET, HEAD and OPTIONS, and allows all origins: metadata is public.
//
//	path, metadata := guard.Metadata()
//	mux.Handle(path, metadata)
func (g *ResourceServer) Metadata() (path string, h http.Handler) {
	sum := sha256.Sum256(g.metadata)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	return g.metadataPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		switch r.Method {
		case http.MethodOptions:
			w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
			w.Header().Set("Access-Control-Allow-Headers", "MCP-Protocol-Version")
			w.Header().Set("Access-Control-Max-Age", "86400")
			w.WriteHeader(http.StatusNoContent)
		case http.MethodGet, http.MethodHead:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "public, max-age=3600")
			w.Header().Set("ETag", tag)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(g.metadata))
		default:
			w.Header().Set("Allow", "GET, HEAD, OPTIONS")
			http.Error(w, "the metadata can only be read", http.StatusMethodNotAllowed)
		}
	})
}
