// Package oauthtest has the counterparts of clients in tests of authorization: an authorization
// server, a protected resource, a user's browser. Package bearertest makes tokens and keys.
//
// The authorization server is strict: it refuses a request without the resource indicator, without
// S256, with two kinds of client authentication, or with a duplicate parameter. A [Rewrite] of
// requests and answers makes it deviate. It counts and keeps every request by [Endpoint].
package oauthtest
