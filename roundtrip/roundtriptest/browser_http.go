package roundtriptest

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"

	"github.com/rondo-mcp/rondo/internal/testing/attack"
)

func openBrowser(web *http.Client) attack.Browser {
	own := *web
	if own.Jar == nil {
		own.Jar, _ = cookiejar.New(nil)
	}
	return func(method, link string, form url.Values) (int, string, error) {
		r, err := http.NewRequest(method, link, strings.NewReader(form.Encode()))
		if err != nil {
			return 0, "", err
		}
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Origin", r.URL.Scheme+"://"+r.URL.Host)
		}
		resp, err := own.Do(r)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text), err
	}
}
