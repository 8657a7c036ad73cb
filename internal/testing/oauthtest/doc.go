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
// Edit changes the members of responses, Reply replaces them, and Hold keeps requests waiting, so
// that a test can have many in flight. Every request is counted by its [Endpoint] and kept with its
// headers and parameters.
package oauthtest
