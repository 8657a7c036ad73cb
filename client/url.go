package client

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"github.com/rondo-mcp/rondo/protocol"
)

// checkURL decides whether a person may be asked to visit what a server sent
// (client/elicitation, "URL Mode", safe URL handling).
func (c *Client) checkURL(q *protocol.ElicitURL) error {
	// Text that a person or a terminal would read differently from a parser
	// is refused before anything looks at its meaning: control characters,
	// white space of all kinds, and format characters, which reorder text or
	// cannot be seen.
	for _, r := range q.URL {
		if r <= ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == '\\' || unicode.In(r, unicode.Cf, unicode.Z) {
			return fmt.Errorf("URL has a character that may not stand in one: %U", r)
		}
	}
	u, err := url.Parse(q.URL)
	if err != nil {
		// The error of net/url repeats the URL, which may hold a secret.
		return errors.New("URL cannot be parsed")
	}
	switch strings.ToLower(u.Scheme) {
	case "":
		return errors.New("URL is not absolute")
	case "javascript", "vbscript", "file", "data", "blob":
		return fmt.Errorf("URL scheme %s is never opened", u.Scheme)
	}
	if u.User != nil {
		return errors.New("URL carries credentials")
	}
	return c.opts.AllowURL(u)
}

// allowSecureURL is the default of [Options.AllowURL].
func allowSecureURL(u *url.URL) error {
	switch {
	case u.Hostname() == "":
		return errors.New("URL has no host")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	case u.Scheme == "http":
		return errors.New("URL scheme http is allowed to loopback hosts only")
	}
	return fmt.Errorf("URL scheme %.32q is not allowed", u.Scheme)
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
