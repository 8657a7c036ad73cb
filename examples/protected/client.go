package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/protocol"
)

// connect returns a client that logs alice in when the server at endpoint requires a login.
func connect(endpoint string, out *log.Logger) (*client.Client, *oauth.Source, error) {
	login, err := oauth.New(endpoint, &oauth.Options{
		Interaction: &oauth.Loopback{Browse: browse},
		Client:      oauth.ClientInfo{Name: "Notes"},
		Observe:     func(e oauth.LoginEvent) { printEvent(out, e) },
	})
	if err != nil {
		return nil, nil, err
	}
	transport, err := clienthttp.New(endpoint, &clienthttp.Options{Authorizer: login})
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(transport, nil)
	if err != nil {
		return nil, nil, err
	}
	return c, login, nil
}

// useNotes calls both tools. Each leads to a login, because the second needs another scope.
func useNotes(ctx context.Context, endpoint string, out *log.Logger) error {
	c, login, err := connect(endpoint, out)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, step := range []struct {
		tool string
		args any
	}{
		{"list_notes", nil},
		{"add_note", addInput{Text: "buy milk"}},
		{"list_notes", nil},
	} {
		out.Print("client    calls ", step.tool)
		result, err := c.CallTool(ctx, step.tool, step.args)
		if err != nil {
			return err
		}
		out.Printf("client    gets %q", result.Content[0].(*protocol.TextContent).Text)
	}
	return login.Logout(ctx)
}

// browse acts as the browser: it follows the authorization server's redirect to the client.
func browse(ctx context.Context, page string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the page of the login says %s", response.Status)
	}
	return nil
}

func printEvent(out *log.Logger, e oauth.LoginEvent) {
	switch {
	case e.Err != nil:
		out.Printf("client    %s failed: %v", e.Kind, e.Err)
	case e.Kind == oauth.LoginBegan:
		out.Printf("client    opens the browser: it needs %q", strings.Join(e.Scopes, " "))
	case e.Kind == oauth.ClientCreated:
		out.Print("client    has registered with the authorization server")
	case e.Kind == oauth.LoginEnded:
		out.Print("client    has a token and sends the same request again")
	case e.Kind == oauth.LoggedOut:
		out.Print("client    has logged out")
	}
}
