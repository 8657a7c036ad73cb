package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A stage replaces testing.T in examples.
type stage struct {
	testing.TB
	cleanups []func()
}

func (*stage) Helper()            {}
func (s *stage) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *stage) close() {
	for _, cleanup := range slices.Backward(s.cleanups) {
		cleanup()
	}
}

// openNotes starts a server (its tool add needs notes:write), its authorization server, a browser.
func openNotes() (*stage, *site) {
	srv, err := server.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"list", "add"} {
		server.AddRawTool(srv, server.Tool{Name: name}, func(context.Context,
			*server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text(name + ": done"), nil
		})
	}
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		log.Fatal(err)
	}
	s := new(stage)
	return s, newSite(s, nil, func(o *oauthtest.ResourceOptions) {
		o.Handler, o.Scopes, o.Supported = handler, []string{"notes:read"}, []string{"notes:read"}
		o.Need = func(tool string) []string {
			if tool == "add" {
				return []string{"notes:write"}
			}
			return nil
		}
	})
}

func callTool(ctx context.Context, endpoint string, login *oauth.Source, tool string) error {
	transport, err := clienthttp.New(endpoint, &clienthttp.Options{Authorizer: login})
	if err != nil {
		return err
	}
	c, err := client.New(transport, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	result, err := c.CallTool(ctx, tool, nil)
	if err != nil {
		return err
	}
	fmt.Println(result.Content[0].(*protocol.TextContent).Text)
	return nil
}

// The first call logs the user in. A tool that needs another scope leads to another login.
func Example() {
	stage, notes := openNotes()
	defer stage.close()
	login, err := oauth.New(notes.resource.URL, &oauth.Options{
		// If Browse is nil, the machine's browser opens.
		Interaction: &oauth.Loopback{Browse: notes.browser.Open, Prompt: io.Discard},
		Client:      oauth.ClientInfo{Name: "Notes"},
		Observe: func(e oauth.LoginEvent) {
			if e.Kind == oauth.LoginBegan {
				fmt.Println("login for", strings.Join(e.Scopes, " "))
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, tool := range []string{"list", "add", "list"} {
		if err := callTool(context.Background(), notes.resource.URL, login, tool); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// login for notes:read
	// list: done
	// login for notes:read notes:write
	// add: done
	// list: done
}

// A web application finishes the login when the browser comes back, perhaps in another process.
func ExampleSource_Begin() {
	stage, notes := openNotes()
	defer stage.close()
	ctx := context.Background()
	opts := &oauth.Options{
		RedirectURI: "https://app.example/callback",
		Account:     "alice", // each user's tokens are kept apart
		Store:       oauth.NewMemoryStore(),
	}
	login, err := oauth.New(notes.resource.URL, opts)
	if err != nil {
		log.Fatal(err)
	}
	err = callTool(ctx, notes.resource.URL, login, "list")
	required := (*oauth.LoginRequiredError)(nil)
	fmt.Println("login required:", errors.As(err, &required), required.Scopes)

	begun, err := login.Begin(ctx, err)
	if err != nil {
		log.Fatal(err)
	}
	saved, err := json.Marshal(begun) // it has secrets: seal it, for example in a cookie
	if err != nil {
		log.Fatal(err)
	}
	callback, err := notes.browser.Visit(ctx, begun.URL) // the application's callback
	if err != nil {
		log.Fatal(err)
	}

	other, err := oauth.New(notes.resource.URL, opts)
	if err != nil {
		log.Fatal(err)
	}
	restored := new(oauth.Login)
	if err := json.Unmarshal(saved, restored); err != nil {
		log.Fatal(err)
	}
	if err := other.Finish(ctx, restored, callback); err != nil {
		log.Fatal(err)
	}
	if err := callTool(ctx, notes.resource.URL, other, "list"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// login required: true [notes:read]
	// list: done
}

// The metadata document is the client id at authorization servers that support such documents.
func ExampleOptions_ServeMetadata() {
	opts := &oauth.Options{Client: oauth.ClientInfo{Name: "Notes", URI: "https://app.example/",
		MetadataURL: "https://app.example/client.json"}}
	w := httptest.NewRecorder()
	opts.ServeMetadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/client.json", nil))
	var document struct {
		ID           string   `json:"client_id"`
		Name         string   `json:"client_name"`
		RedirectURIs []string `json:"redirect_uris"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
		log.Fatal(err)
	}
	fmt.Println(document.ID, document.Name, document.RedirectURIs)
	// Output:
	// https://app.example/client.json Notes [http://127.0.0.1/callback http://localhost/callback]
}
