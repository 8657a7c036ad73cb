// Package urlrule checks URLs before a person is asked to visit them (client/elicitation of the
// specification, "Safe URL Handling"), with one rule for servers, gateways and clients. [Parse]
// always applies, [CheckSecure] by default: https, or http to the person's own machine.
//
// Errors never repeat the URL, which often holds a secret.
package urlrule

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxBytes limits a URL: common servers and proxies read request lines of up to 8 KiB.
const MaxBytes = 8 << 10

// Check combines [Parse] and [CheckSecure].
func Check(text string) (*url.URL, error) {
	u, err := Parse(text)
	if err == nil {
		err = CheckSecure(u)
	}
	if err != nil {
		return nil, err
	}
	return u, nil
}

// Parse reads an absolute URL. It refuses a URL that people and programs may read differently, that
// has credentials, that runs code or reads files instead of a page, or that exceeds MaxBytes.
func Parse(text string) (*url.URL, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("URL is longer than %d bytes", MaxBytes)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("URL is not UTF-8")
	}
	// First refuse characters that a person or terminal reads differently from a parser: control
	// characters, all white space, and format characters, which reorder text or are invisible.
	for _, r := range text {
		if r <= ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == '\\' ||
			unicode.In(r, unicode.Cf, unicode.Z) {
			return nil, fmt.Errorf("URL has a character that is not allowed: %U", r)
		}
	}
	u, err := url.Parse(text)
	if err != nil {
		// the error of net/url repeats the URL
		return nil, errors.New("URL cannot be parsed")
	}
	switch strings.ToLower(u.Scheme) {
	case "":
		return nil, errors.New("URL is not absolute: it must begin with https://")
	case "javascript", "vbscript", "file", "data", "blob":
		return nil, fmt.Errorf("URL scheme %s is never opened", u.Scheme)
	}
	if u.User != nil {
		return nil, errors.New("URL carries credentials: remove the user name")
	}
	return u, nil
}

// CheckSecure refuses URLs other than https and http to a loopback host. u must come from [Parse].
func CheckSecure(u *url.URL) error {
	switch {
	case u.Hostname() == "":
		return errors.New("URL has no host")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	case u.Scheme == "http":
		return errors.New("URL scheme http is allowed to loopback hosts only; use https")
	}
	return errors.New("URL scheme is not allowed; use https")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
