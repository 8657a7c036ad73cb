package clienthttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/redact"

	"github.com/rondo-mcp/rondo/protocol"
)

// sendRequest sends one HTTP request, again with other credentials if the [Authorizer] says so. It
// returns when the response header has arrived. The caller must end the exchange with closeWith.
func (t *Transport) sendRequest(ctx context.Context, o Outgoing, header http.Header,
	body []byte) (*httpExchange, error) {
	if t.authorizer == nil {
		return t.sendHTTP(ctx, o.Method, header, body)
	}
	o.URL = t.shownEndpoint
	for attempt := 1; ; attempt++ {
		sent, err := t.authorizer.Credentials(ctx, o)
		if err != nil {
			return nil, newAuthorizerError(err, nil)
		}
		x, err := t.sendHTTP(ctx, o.Method, addCredentials(header, sent), body)
		if err != nil {
			return nil, err
		}
		x.credentials = sent
		if x.isRefused = isRefusal(x.resp); !x.isRefused || attempt == maxSends {
			return x, nil
		}
		again, err := x.reportRefused(Refusal{
			Outgoing: o, Sent: canonicalHeader(sent),
			Status: x.resp.StatusCode, Header: x.resp.Header, Attempt: attempt,
		})
		switch {
		case err != nil:
			return nil, x.closeWith(err)
		case !again:
			return x, nil
		}
		x.releaseAll()
	}
}

func isRefusal(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized ||
		resp.StatusCode == http.StatusForbidden && len(resp.Header["Www-Authenticate"]) > 0
}

// reportRefused calls the authorizer without holding a connection, because a login may take long.
func (x *httpExchange) reportRefused(r Refusal) (again bool, err error) {
	x.bufferRefusal()
	defer waiting.Pause(x.ctx)()
	again, err = x.transport.authorizer.Refused(x.ctx, r)
	switch {
	case err != nil:
		return false, newAuthorizerError(err, r.Sent)
	case x.ctx.Err() != nil:
		return false, context.Cause(x.ctx)
	}
	return again, nil
}

// bufferRefusal reads as much of a refusal's body as readRefusal needs.
func (x *httpExchange) bufferRefusal() {
	var body []byte
	if x.mediaType() == mediaJSON {
		body, _ = x.readBody()
	} else {
		body, _ = io.ReadAll(io.LimitReader(x.resp.Body, maxExcerpt))
	}
	_ = x.resp.Body.Close()
	x.resp.Body = io.NopCloser(bytes.NewReader(body))
}

// canonicalHeader copies a header with canonical names. Values have no spare capacity: a round
// tripper that appends to one must not write into a slice that other requests read.
func canonicalHeader(header http.Header) http.Header {
	h := make(http.Header, len(header))
	for name, values := range header {
		name = textproto.CanonicalMIMEHeaderKey(name)
		h[name] = slices.Clip(slices.Concat(h[name], values))
	}
	return h
}

// addCredentials adds credentials to the header, but never overrides headers of the protocol.
func addCredentials(header, credentials http.Header) http.Header {
	h := make(http.Header, len(header)+len(credentials))
	maps.Copy(h, header)
	for name, values := range credentials {
		name = textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case strings.HasPrefix(name, "Mcp-"), name == "Accept", name == "Content-Type",
			name == headerLastEvent:
		default:
			h[name] = slices.Clip(values)
		}
	}
	return h
}

// maskCredentials masks the authorizer's credentials in server text, which may repeat them.
func (x *httpExchange) maskCredentials(text string) string {
	if len(x.credentials) == 0 || text == "" {
		return text
	}
	return redact.MaskParts(text, secretsOf(x.credentials))
}

func secretsOf(header http.Header) (secrets []string) {
	for _, values := range header {
		for _, value := range values {
			secrets = append(secrets, value)
			if _, credentials, ok := strings.Cut(value, " "); ok {
				secrets = append(secrets, credentials)
			}
		}
	}
	return secrets
}

// An authorizerError is an authorizer's error with the credentials masked. It has methods Is and As
// but no Unwrap: code that prints an error chain would print the unmasked text.
type authorizerError struct {
	text string
	err  error
}

func newAuthorizerError(err error, sent http.Header) error {
	text := errPrefix.Errorf("authorize: %w", err).Error()
	if len(sent) > 0 {
		text = redact.MaskParts(text, secretsOf(sent))
	}
	return &authorizerError{text, err}
}

func (e *authorizerError) Error() string { return e.text }

// Format masks the credentials for every verb.
func (e *authorizerError) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, e.text) }

func (e *authorizerError) Is(target error) bool { return errors.Is(e.err, target) }

func (e *authorizerError) As(target any) bool { return errors.As(e.err, target) }

// Unhandled means that the server has not acted on the request.
func (e *authorizerError) Unhandled() {}

var errUnauthorized = errors.New("credentials were refused") // the authorizer has no others

func isUnauthorized(err error) bool {
	_, gaveUp := errors.AsType[*authorizerError](err)
	return gaveUp || errors.Is(err, errUnauthorized)
}

func outgoingOf(m protocol.Message) Outgoing {
	o := Outgoing{Method: http.MethodPost}
	switch m := m.(type) {
	case *protocol.Request:
		o.RPC, o.Target = m.Method, m.Mirror.Name
	case *protocol.Notification:
		o.RPC = m.Method
	}
	return o
}
