package serverhttp

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

func (h *Handler) reportRefusal(r *http.Request, f *fault) {
	e := event.RequestRefused{
		Transport: "http", Reason: f.reason, Status: f.status, RequestID: f.id.String(),
		RemoteAddr: r.RemoteAddr, Principal: f.principal, Err: f.cause,
	}
	if f.err != nil {
		e.Code = f.err.Code
		if e.Err == nil {
			e.Err = f.err
		}
	}
	h.srv.Report(r.Context(), e)
}

const maxCause = 1 << 10 // bytes kept of a hook's error

// A hookError is the error of an authentication hook with masked credentials.
type hookError struct {
	text string
	err  error
}

// newHookError masks the secrets of the request in a hook's error.
func newHookError(r *http.Request, option string, err error) error {
	text := errorText(err)
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "") + "…"
	}
	return &hookError{"serverhttp.Options." + option + ": " +
		redact.MaskParts(text, requestSecrets(r)), err}
}

// errorText protects against foreign errors that panic.
func errorText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = "the error cannot be printed"
		}
	}()
	return err.Error()
}

func (e *hookError) Error() string { return e.text }

// Is looks into the hook's error. Unwrap would reveal the masked text.
func (e *hookError) Is(target error) bool { return errors.Is(e.err, target) }

// As is Is for types.
func (e *hookError) As(target any) bool { return errors.As(e.err, target) }

// isPlainHeader reports whether logs may show a header. Others may hold credentials.
func isPlainHeader(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "Connection",
		"Content-Encoding",
		"Content-Length", "Content-Type", "Forwarded", "Host", "Origin", "Traceparent",
		"Tracestate", "User-Agent", "Via",
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto",
		headerVersion, headerMethod:
		return true
	}
	// about the browser
	return strings.HasPrefix(name, "Sec-Fetch-") || strings.HasPrefix(name, "Sec-Ch-")
}

// requestSecrets returns the secrets of a request. It splits no more than can be masked.
func requestSecrets(r *http.Request) []string {
	var secrets []string
	total := 0
	for name, lines := range r.Header {
		if isPlainHeader(name) {
			continue
		}
		for _, line := range lines {
			total += len(line) + 1
		}
		secrets = append(secrets, lines...)
	}
	if r.URL != nil {
		total += len(r.URL.RawQuery)
		secrets = append(secrets, r.URL.RawQuery)
	}
	if total > redact.MaxSecrets {
		return secrets
	}
	for _, line := range r.Header["Authorization"] {
		scheme, credentials, _ := strings.Cut(line, " ")
		secrets = append(secrets, credentials)
		if strings.EqualFold(scheme, "Basic") {
			if pair, err := base64.StdEncoding.DecodeString(credentials); err == nil {
				_, password, _ := strings.Cut(string(pair), ":")
				secrets = append(secrets, string(pair), password)
			}
		}
	}
	for _, cookie := range r.Cookies() {
		secrets = append(secrets, cookie.Value)
	}
	if r.URL != nil && r.URL.RawQuery != "" {
		for _, values := range r.URL.Query() {
			secrets = append(secrets, values...)
		}
	}
	return secrets
}
