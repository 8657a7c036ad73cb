package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func tryOut(ctx context.Context, srv *server.Server) error {
	c, err := client.New(srv, &client.Options{ElicitForm: askAtTerminal})
	if err != nil {
		return err
	}
	defer c.Close()
	result, err := c.CallTool(ctx, "book", Booking{Restaurant: "Chez Ada"})
	if err != nil {
		return err
	}
	fmt.Println(result.Content[0].(*protocol.TextContent).Text)
	return nil
}

var terminal = bufio.NewScanner(os.Stdin)

// askAtTerminal shows a question. The person answers it with JSON, or declines with an empty line.
func askAtTerminal(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
	for {
		fmt.Printf("%s\n  form: %s\n  answer: ", q.Message, q.Schema)
		if !terminal.Scan() || len(terminal.Bytes()) == 0 {
			return client.Decline(), nil
		}
		answer := append([]byte(nil), terminal.Bytes()...)
		err := q.Check(answer)
		if err == nil {
			return &protocol.ElicitResult{Action: protocol.ActionAccept, Content: answer}, nil
		}
		fmt.Println("  no:", err)
	}
}
