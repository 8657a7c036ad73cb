package clienthttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

const maxSends = 4 // first try, after a login, after a login for more scopes, after a nonce

// An Authorizer provides the credentials of every HTTP request, including those that resume or end
// a session, and handles their refusal. Calls may overlap and must return when their context ends.
type Authorizer interface {
	// Credentials returns headers for one request. They override [Options].Header, but not headers
	// of the protocol. An error fails the request before it is sent.
	Credentials(ctx context.Context, r Outgoing) (http.Header, error)
	// Refused is called after status 401, or 403 with WWW-Authenticate. If it returns true, the
	// same bytes are sent again with new credentials, at most 4 times in all; the last refusal is
	// not reported. If it returns false, the call fails with err, or with a [*StatusError] if err
	// is nil. It may block for a login: client.Options.Timeout excludes this time. ctx ends with
	// the call, the session or the transport.
	Refused(ctx context.Context, r Refusal) (again bool, err error)
}

// An Outgoing is an HTTP request to be sent.
type Outgoing struct {
	// Method is POST for messages, GET to listen or resume, DELETE for the end of a session.
	Method string
	// URL is the endpoint. It must not be changed. Not printed: its query may hold a secret.
	URL *url.URL `json:"-"`
	// RPC is the message's method, such as tools/call; empty for answers, GET and DELETE.
	RPC string
	// Target is the tool or prompt name, or the resource URI, of the message; empty for others.
	Target string
}

// Format leaves the URL out, whatever the verb.
func (o Outgoing) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, o.Method)
	if o.RPC != "" {
		_, _ = io.WriteString(s, " "+o.RPC)
	}
	if o.Target != "" {
		_, _ = fmt.Fprintf(s, " %.100q", o.Target)
	}
}

// A Refusal is a response that refuses credentials.
type Refusal struct {
	Outgoing
	// Sent are the headers that Credentials returned, with canonical names. Not printed.
	Sent    http.Header `json:"-"`
	Status  int         // 401 or 403
	Header  http.Header `json:"-"` // not printed
	Attempt int         // times the message has been sent, from 1
}

// Format leaves URL and headers out, whatever the verb.
func (r Refusal) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprintf(s, "%v: %d, attempt %d", r.Outgoing, r.Status, r.Attempt)
}
