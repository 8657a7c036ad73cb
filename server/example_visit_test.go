package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A visits is what a server keeps of the pages to which it sends people: whose call each visit is
// of, and whether it is finished. A real one is a table of a database.
type visits struct {
	owners, finished sync.Map
	url              string // of the page
}

// connect sends the person to a page and waits until they have been there.
func (v *visits) connect(ctx context.Context, call *server.ToolCall, _ struct{}) (
	protocol.CallToolOutcome, error) {
	visit, err := roundtrip.Nonce(ctx, "visit")
	if err != nil {
		return nil, err
	}
	v.owners.Store(visit, call.Principal) // before anybody has the link
	err = roundtrip.AskURL(ctx, "visit", "Please log in to your bank.", v.url+"?visit="+visit)
	if err != nil {
		return nil, err
	}
	err = roundtrip.Await(ctx, "visit", func(context.Context) (bool, error) {
		_, ok := v.finished.Load(visit)
		return ok, nil
	})
	if err != nil {
		return nil, err
	}
	return server.Text("connected"), nil
}

// servePage is the page. Whoever has the link can open it, so it compares its own login with the
// principal of the call.
func (v *visits) servePage(w http.ResponseWriter, r *http.Request) {
	visit := r.FormValue("visit")
	owner, ok := v.owners.Load(visit)
	if !ok || owner != loggedIn(r) {
		http.Error(w, "This link is not for you.", http.StatusForbidden)
		return
	}
	if r.Method == http.MethodPost { // programs that show previews of links send GET
		v.finished.Store(visit, true)
	}
}

// loggedIn stands for the login of the page's site, such as a cookie of its session. It returns
// the principal that this person has in access tokens, too: the same issuer and subject.
func loggedIn(r *http.Request) protocol.Principal {
	name, _, _ := r.BasicAuth()
	return protocol.Principal{Issuer: "https://id.example", Subject: name}
}

// A page finds out who visits it. A link that has come into the hands of somebody else connects
// nothing.
func Example_visit() {
	v := &visits{}
	page := httptest.NewServer(http.HandlerFunc(v.servePage))
	defer page.Close()
	v.url = page.URL
	srv, err := server.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	server.AddTool(srv, server.Tool{Name: "connect"}, v.connect)

	c, err := client.New(srv, &client.Options{
		ElicitURL: func(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult, error) {
			for _, person := range []string{"mallory", "ann"} {
				post, err := http.NewRequest(http.MethodPost, q.URL, nil)
				if err != nil {
					return nil, err
				}
				post.SetBasicAuth(person, "")
				res, err := http.DefaultClient.Do(post)
				if err != nil {
					return nil, err
				}
				res.Body.Close()
				fmt.Println(person, "opens the link:", res.Status)
			}
			return &protocol.ElicitResult{Action: protocol.ActionAccept}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ann := server.WithPrincipal(context.Background(),
		protocol.Principal{Issuer: "https://id.example", Subject: "ann"})
	result, err := c.CallTool(ann, "connect", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*protocol.TextContent).Text)
	// Output:
	// mallory opens the link: 403 Forbidden
	// ann opens the link: 200 OK
	// connected
}
