package oauthtest_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

func TestBrowserOpensNothingExceptPages(t *testing.T) {
	for _, address := range []string{"javascript:alert(1)", "file:///etc/passwd", "calculator"} {
		browser := oauthtest.NewBrowser(t)
		if _, err := browser.Visit(t.Context(), address); err == nil {
			t.Errorf("%s was opened", address)
		}
	}
}
