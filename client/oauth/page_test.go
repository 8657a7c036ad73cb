package oauth_test

import (
	"crypto"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
)

// newClient returns a client that performs OAuth login when the server requires it.
func newClient(endpoint string, page *oauth.Loopback) (*client.Client, error) {
	login, err := oauth.New(endpoint, &oauth.Options{
		Interaction: page, // &oauth.Loopback{} opens the browser of the machine
		Client:      oauth.ClientInfo{Name: "Notes"},
	})
	if err != nil {
		return nil, err
	}
	transport, err := clienthttp.New(endpoint, &clienthttp.Options{Authorizer: login})
	if err != nil {
		return nil, err
	}
	return client.New(transport, nil)
}

// newEntraLogin is for a company's tenant, at which this client has an id.
func newEntraLogin(endpoint, tenant, id string) (*oauth.Source, error) {
	provider := oauth.EntraID(tenant, endpoint, "api://notes", "read")
	return oauth.New(endpoint, &oauth.Options{
		Interaction:   &oauth.Loopback{Host: "localhost"},
		Registrations: []oauth.Registration{{Issuer: provider.Issuer, ClientID: id}},
		Providers:     []oauth.Provider{provider},
	})
}

// newJob returns a non-interactive client.
func newJob(endpoint, issuer, id string, key crypto.Signer) (*client.Client, error) {
	job, err := oauth.New(endpoint, &oauth.Options{
		Machine:       oauth.ClientCredentials{},
		Registrations: []oauth.Registration{{Issuer: issuer, ClientID: id, PrivateKey: key}},
	})
	if err != nil {
		return nil, err
	}
	transport, err := clienthttp.New(endpoint, &clienthttp.Options{Authorizer: job})
	if err != nil {
		return nil, err
	}
	return client.New(transport, &client.Options{Extensions: job.Extensions()})
}
