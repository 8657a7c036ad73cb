package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// elicit is what a client does when a server asks the person for a form.
type elicit = func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error)

// answerWith stands in for a person who always gives the same answer.
func answerWith(action protocol.ElicitAction, content string) elicit {
	return func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
		fmt.Printf("   asked: %s -> %s %s\n", q.Message, action, content)
		time.Sleep(time.Second / 2) // as people do: a refusal at once is no person's
		return &protocol.ElicitResult{Action: action, Content: json.RawMessage(content)}, nil
	}
}

// terminal is read by line; one reader, so that nothing typed ahead is lost.
var terminal = bufio.NewReader(os.Stdin)

// askAtTerminal asks whoever runs the program, and asks again after an answer that does not fit the
// form.
func askAtTerminal(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
	for {
		fmt.Printf("   %s\n   Type a reason to accept, \"no\" to decline, nothing to cancel: ", q.Message)
		line, err := terminal.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		switch line = strings.TrimSpace(line); line {
		case "":
			return &protocol.ElicitResult{Action: protocol.ActionCancel}, nil
		case "no":
			return &protocol.ElicitResult{Action: protocol.ActionDecline}, nil
		}
		content, err := json.Marshal(Confirmation{Reason: line})
		if err != nil {
			return nil, err
		}
		if err := q.Check(content); err != nil {
			fmt.Printf("   %v\n", err)
			continue
		}
		return &protocol.ElicitResult{Action: protocol.ActionAccept, Content: content}, nil
	}
}
