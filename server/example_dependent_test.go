package server_test

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

type Region struct {
	Name string `json:"name" enum:"eu,us" enumTitles:"Europe,United States"`
}

type Size struct {
	Nodes int `json:"nodes" minimum:"1" maximum:"9" default:"3"`
}

var (
	region = roundtrip.MustQuestion[Region]("region")
	size   = roundtrip.MustQuestion[Size]("size")
)

type Cluster struct {
	Name string `json:"name"`
}

// provision asks two questions, of which the second depends on the first. Each round runs it.
func provision(ctx context.Context, call *server.ToolCall,
	in Cluster) (protocol.CallToolOutcome, error) {
	where, ok := region.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(region.Elicit("Which region?")), nil
	}
	howBig, ok := size.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(size.Elicit("How many nodes in " + where.Name + "?")), nil
	}
	return server.Text(fmt.Sprintf("%s: %d nodes in %s", in.Name, howBig.Nodes, where.Name)), nil
}

// A tool with two dependent questions: the third round still has the first answer.
func Example_dependentQuestions() {
	srv, err := server.New(nil)
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	server.AddTool(srv, server.Tool{Name: "provision"}, provision)

	c, err := client.New(srv, &client.Options{
		ElicitForm: func(_ context.Context,
			q *client.FormQuestion) (*protocol.ElicitResult, error) {
			fmt.Println("asked:", q.Message)
			answers := map[string]string{"region": `{"name":"eu"}`, "size": `{}`}
			return &protocol.ElicitResult{Action: protocol.ActionAccept,
				Content: []byte(answers[q.Key])}, nil
		},
	})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	result, err := c.CallTool(context.Background(), "provision", Cluster{Name: "blue"})
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Content[0].(*protocol.TextContent).Text)
	// Output:
	// asked: Which region?
	// asked: How many nodes in eu?
	// blue: 3 nodes in eu
}
