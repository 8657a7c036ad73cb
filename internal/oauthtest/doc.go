// Package oauthtest is the other side of authorization for tests: an authorization server, a
// protected resource and a person's browser, in the process of the test. The package is written
// against the RFCs and shares no code with packages that it tests.
//
// A test starts a server and a resource that names it, and logs in with a browser:
//
//	as := oauthtest.NewServer(t, nil)
//	resource := oauthtest.NewResource(t, &oauthtest.ResourceOptions{
//		Servers: []*oauthtest.Server{as},
//		Scopes:  []string{"read"},
//	})
//	browser := oauthtest.NewBrowser(t)
//	// Connect a client to resource.URL that opens URLs with browser.Open.
//	if n := as.Count(oauthtest.Refresh); n != 1 {
//		t.Errorf("%d refreshes, want 1", n)
//	}
//
// The authorization server is strict where a real one may be lenient: a request without the
// resource indicator, without S256, with two ways to authenticate or with a parameter twice is
// refused. Only a client without these mistakes can log in.
//
// # Misbehaviour
//
// Three switches make a server or a resource misbehave. [Server.Misbehave] turns on one [Fault]
// with a name. [Server.Edit] changes the members of what an endpoint answers. [Server.Answer] has
// an endpoint answer something else altogether: an HTML page, an error, too much, or nothing at
// all. [Server.Hold] keeps requests waiting, so that a test can have many in flight.
//
// # What is recorded
//
// Every request is counted by its [Endpoint] and kept with its headers and parameters, see
// [Server.Requests]. [Server.Secrets] lists all tokens, codes, verifiers and client secrets that
// the server has seen or made, for tests that look for them in logs.
package oauthtest
