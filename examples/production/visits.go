package main

import (
	"html/template"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
)

// isVisit matches results of roundtrip.Nonce, so that no path leads out of the folder.
var isVisit = regexp.MustCompile(`^[A-Za-z0-9_-]{32}$`)

// visitPage stands for the bank's own login. A real page verifies that the browser belongs to the
// caller, by its own login and not only by the link. Package roundtrip/visit compares the two.
var visitPage = template.Must(template.New("visit").Parse(`<!doctype html>
<title>Your bank</title>
{{if .}}<p>The account is connected. You may close this page.
{{else}}<form method="post"><button>Connect this account</button></form>{{end}}
`))

func (b *bank) visitFile(visit string) string {
	return filepath.Join(b.folder, "visit-"+visit)
}

func (b *bank) serveVisit(w http.ResponseWriter, r *http.Request) {
	visit := r.PathValue("visit")
	if !isVisit.MatchString(visit) {
		http.NotFound(w, r)
		return
	}
	done := r.Method == http.MethodPost
	if done {
		if err := os.WriteFile(b.visitFile(visit), nil, 0o600); err != nil {
			http.Error(w, "The bank cannot be reached. Please try again.",
				http.StatusServiceUnavailable)
			return
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; form-action 'self'")
	_ = visitPage.Execute(w, done) // the browser is gone
}
