package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/protocol"
)

// connect returns a client that logs alice in when the server at endpoint wants it.
// Without Browse it would open the browser of this machine.
func connect(endpoint string, out io.Writer) (*client.Client, *oauth.Source, error) {
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

// useNotes calls both tools. The first call leads to a login, and the second to
// another one, since it needs a scope that nobody has asked alice for.
func useNotes(ctx context.Context, endpoint string, out io.Writer) error {
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
		fmt.Fprintf(out, "client    calls %s\n", step.tool)
		result, err := c.CallTool(ctx, step.tool, step.args)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "client    gets %q\n", textOf(result))
	}
	return login.Logout(ctx)
}

// browse takes the place of the browser: alice's follows the redirect from the
// authorization server to the client and shows what it gets.
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

func printEvent(out io.Writer, e oauth.LoginEvent) {
	scopes := strings.Join(e.Scopes, " ")
	switch {
	case e.Err != nil:
		fmt.Fprintf(out, "client    %s failed: %v\n", e.Kind, e.Err)
	case e.Kind == oauth.LoginBegan:
		fmt.Fprintf(out, "client    opens the browser: it needs %q\n", scopes)
	case e.Kind == oauth.ClientCreated:
		fmt.Fprintln(out, "client    has registered with the authorization server")
	case e.Kind == oauth.LoginEnded:
		fmt.Fprintln(out, "client    has a token and sends the same request again")
	case e.Kind == oauth.LoggedOut:
		fmt.Fprintln(out, "client    has logged out")
	}
}

func textOf(result *protocol.CallToolResult) string {
	var texts []string
	for _, content := range result.Content {
		if text, ok := content.(*protocol.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}
