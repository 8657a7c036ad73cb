package clienthttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// maxSends is how often one message is sent at most: for the first time, after a login, after
// a login with more scopes, and after a nonce.
const maxSends = 4

// An Authorizer gives requests their credentials and decides what to do when they are
// refused. It is asked about every HTTP request: messages, answers to the server's questions,
// the streams of sessions, their resumption and their end. Its methods are called
// concurrently and must return when their context ends.
type Authorizer interface {
	// Credentials returns headers for one request that is about to be sent. They override
	// [Options].Header; headers of the protocol cannot be set. The error fails the request
	// before anything is sent.
	Credentials(ctx context.Context, r Outgoing) (http.Header, error)
	// Refused is told of a response with status 401, or 403 with a WWW-Authenticate header.
	// If it returns true, the same bytes are sent again with new credentials, at most
	// 4 times in all: after the last refusal Refused is not called. If it returns
	// false, the call fails with a [*StatusError]. An error fails the call in its place.
	//
	// It may take the time that a person needs to log in: this does not count against
	// client.Options.Timeout. The end of the call, of the session or of the transport ends
	// ctx.
	Refused(ctx context.Context, r Refusal) (again bool, err error)
}

// An Outgoing is an HTTP request that is about to be sent.
type Outgoing struct {
	// Method is the HTTP method: POST for messages, GET for the stream of a session and for
	// resumption, DELETE for the end of a session.
	Method string
	// URL is the endpoint. It must not be changed. It is not printed with the rest, since its
	// query may hold a secret.
	URL *url.URL `json:"-"`
	// RPC is the method of the message, for example tools/call; empty for answers to the
	// server's questions, GET and DELETE.
	RPC string
	// Target is the name of the tool or prompt, or the URI of the resource, that the message
	// is about; empty for others.
	Target string
}

// Format implements [fmt.Formatter]. It leaves the URL out, whatever the verb.
func (o Outgoing) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, o.Method)
	if o.RPC != "" {
		_, _ = io.WriteString(s, " "+o.RPC)
	}
	if o.Target != "" {
		_, _ = fmt.Fprintf(s, " %.100q", o.Target)
	}
}

// A Refusal is a response that refuses the credentials of a request.
type Refusal struct {
	Outgoing
	// Sent are the headers that Credentials returned for the request, with canonical names.
	// They are not printed.
	Sent http.Header `json:"-"`
	// Status is 401 or 403.
	Status int
	// Header is the header of the response. It is not printed.
	Header http.Header `json:"-"`
	// Attempt counts how often the message has been sent, from 1.
	Attempt int
}

// Format implements [fmt.Formatter]. It leaves URL and headers out, whatever the verb.
func (r Refusal) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprintf(s, "%v: %d, attempt %d", r.Outgoing, r.Status, r.Attempt)
}
