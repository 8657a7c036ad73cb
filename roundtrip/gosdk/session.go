//lint:file-ignore SA1019 sampling and roots are deprecated, and supported for as long as they are

package gosdk

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The interfaces have the one method of [mcp.ServerSession] that a question needs, so that
// handlers which hold an interface of their own in place of the session can ask as well.
//
// A value of another type than *mcp.ServerSession stands for the session of the call that
// the context belongs to, unless it has a method ID that returns the id of another session.
// Outside of a call its method is called.
type (
	// Elicitor asks the person behind a client.
	Elicitor interface {
		Elicit(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error)
	}

	// MessageCreator asks the client's model.
	MessageCreator interface {
		CreateMessage(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error)
	}

	// ToolMessageCreator asks the client's model, which may use tools.
	ToolMessageCreator interface {
		CreateMessageWithTools(context.Context,
			*mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)
	}

	// RootsLister asks for the directories that a client exposes.
	RootsLister interface {
		ListRoots(context.Context, *mcp.ListRootsParams) (*mcp.ListRootsResult, error)
	}
)

// findRun returns the run of the handler that asks session, nil outside of a handler.
func findRun(ctx context.Context, session any) *handlerRun {
	run := runFrom(ctx)
	if run == nil {
		return nil
	}
	switch session := session.(type) {
	case *mcp.ServerSession:
		if session != run.visible && session != run.call.session {
			return nil
		}
	case interface{ ID() string }:
		if id := session.ID(); id != run.call.session.ID() && id != run.visible.ID() {
			return nil
		}
	}
	return run
}
