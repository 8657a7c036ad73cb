package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
)

// A program with a person at a screen: the browser opens when the server asks for a login.
func Example() {
	connect := func(endpoint string) (*client.Client, error) {
		login, err := oauth.New(endpoint, &oauth.Options{
			Interaction: &oauth.Loopback{Prompt: os.Stderr, Paste: os.Stdin},
			Client:      oauth.ClientInfo{Name: "Notes"},
		})
		if err != nil {
			return nil, err
		}
		transport, err := clienthttp.New(endpoint, &clienthttp.Options{Authorizer: login})
		if err != nil {
			return nil, err
		}
		return client.New(transport, &client.Options{
			Cache: &client.CacheOptions{Partition: login.Partition},
		})
	}
	c, err := connect("https://mcp.example.com/mcp")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	// c.CallTool logs in.
}

// The login outlives the process, and all processes with the folder and the key share it.
func ExampleNewFileStore() {
	folder, err := os.MkdirTemp("", "logins")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	var key [32]byte // random, from the keyring of the operating system
	key[0] = 1
	store, err := oauth.NewFileStore(folder, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	login, err := oauth.New("https://mcp.example.com/mcp", &oauth.Options{Store: store})
	fmt.Println(login, err)
	// Output: tokens for https://mcp.example.com/mcp <nil>
}

// A client that an administrator has registered. Its secret goes to this issuer alone.
func ExampleRegistration() {
	_, err := oauth.New("https://mcp.example.com/mcp", &oauth.Options{
		Registrations: []oauth.Registration{{
			Issuer:       "https://login.example.com",
			ClientID:     "notes",
			ClientSecret: oauth.Secret(os.Getenv("NOTES_SECRET")),
		}},
	})
	fmt.Println(err)
	_, err = oauth.New("https://mcp.example.com/mcp", &oauth.Options{
		Registrations: []oauth.Registration{{ClientID: "notes", ClientSecret: "hush"}},
	})
	fmt.Println(err != nil) // it would go to whatever issuer a server names
	// Output:
	// <nil>
	// true
}

// A web application sends the browser of its user to the authorization server, and finishes the
// login where it comes back.
func ExampleSource_Begin() {
	const redirect = "https://app.example.com/callback"
	login := func(user string) (*oauth.Source, error) {
		return oauth.New("https://mcp.example.com/mcp", &oauth.Options{
			Account: user, RedirectURI: redirect,
		})
	}
	begin := func(ctx context.Context, source *oauth.Source, failed error) (string, error) {
		if _, ok := errors.AsType[*oauth.LoginRequiredError](failed); !ok {
			return "", failed
		}
		l, err := source.Begin(ctx, failed)
		if err != nil {
			return "", err
		}
		// Seal l as JSON, and keep it for the user's session.
		return l.URL, nil
	}
	finish := func(ctx context.Context, source *oauth.Source, l *oauth.Login, r *url.URL) error {
		return source.Finish(ctx, l, r)
	}
	_, _, _ = login, begin, finish
}

// What a server's metadata says, before anybody logs in.
func ExampleDiscover() {
	show := func(ctx context.Context, endpoint string) error {
		found, err := oauth.Discover(ctx, endpoint, nil)
		if err != nil {
			return err
		}
		fmt.Println(found.Issuer, found.Scopes, found.DynamicRegistration)
		return nil
	}
	_ = show
}

// The document whose URL is the client's id at authorization servers that fetch it.
func ExampleOptions_ServeMetadata() {
	opts := &oauth.Options{
		MetadataURL: "https://notes.example.com/client.json",
		Client:      oauth.ClientInfo{Name: "Notes", URI: "https://notes.example.com"},
	}
	http.Handle("GET /client.json", opts.ServeMetadata())
}

// A logout forgets the login and takes its tokens back.
func ExampleSource_Logout() {
	login, err := oauth.New("https://mcp.example.com/mcp", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	before := login.Partition(context.Background())
	fmt.Println(login.Logout(context.Background()))
	fmt.Println(login.Partition(context.Background()) == before)
	// Output:
	// <nil>
	// false
}
