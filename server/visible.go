package server

import "github.com/rondo-mcp/rondo/protocol"

// A Kind is a kind of definition that can be registered.
type Kind string

// The kinds, as passed to [Options].Visible.
const (
	KindTool             Kind = "tool"
	KindPrompt           Kind = "prompt"
	KindResource         Kind = "resource"
	KindResourceTemplate Kind = "resource template"
)

func (s *Server) isVisible(p protocol.Principal, kind Kind, name string) bool {
	return s.opts.Visible == nil || s.opts.Visible(p, kind, name)
}
