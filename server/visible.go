package server

import "github.com/rondo-mcp/rondo/protocol"

// A Kind is a kind of thing that can be registered.
type Kind string

// The kinds that [Options].Visible is asked about.
const (
	KindTool             Kind = "tool"
	KindPrompt           Kind = "prompt"
	KindResource         Kind = "resource"
	KindResourceTemplate Kind = "resource template"
)

// isVisible reports whether p may see what is registered under name.
func (s *Server) isVisible(p protocol.Principal, kind Kind, name string) bool {
	return s.opts.Visible == nil || s.opts.Visible(p, kind, name)
}
