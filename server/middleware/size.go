package middleware

import (
	"encoding/base64"
	"encoding/json"

	"github.com/rondo-mcp/rondo/protocol"
)

// resultSize adds up the large parts of a result. Other parts hold only the server's own data.
func resultSize(result protocol.Result) int {
	switch r := result.(type) {
	case *protocol.CallToolResult:
		if r != nil {
			return contentsSize(r.Content) + len(r.StructuredContent) + len(r.Meta)
		}
	case *protocol.GetPromptResult:
		if r != nil {
			n := len(r.Description) + len(r.Meta)
			for _, m := range r.Messages {
				n += contentSize(m.Content)
			}
			return n
		}
	case *protocol.ReadResourceResult:
		if r != nil {
			n := len(r.Meta)
			for i := range r.Contents {
				n += resourceSize(&r.Contents[i])
			}
			return n
		}
	case *protocol.InputRequiredResult:
		if r != nil {
			return questionsSize(r)
		}
	}
	return 0
}

func contentsSize(blocks []protocol.Content) int {
	n := 0
	for _, block := range blocks {
		n += contentSize(block)
	}
	return n
}

// contentSize ignores nil blocks: encoding refuses them.
func contentSize(block protocol.Content) int {
	switch c := block.(type) {
	case *protocol.TextContent:
		if c != nil {
			return len(c.Text) + len(c.Meta)
		}
	case *protocol.ImageContent:
		if c != nil {
			return base64.StdEncoding.EncodedLen(len(c.Data)) + len(c.Meta)
		}
	case *protocol.AudioContent:
		if c != nil {
			return base64.StdEncoding.EncodedLen(len(c.Data)) + len(c.Meta)
		}
	case *protocol.EmbeddedResource:
		if c != nil {
			return resourceSize(&c.Resource) + len(c.Meta)
		}
	case *protocol.ResourceLink:
		if c != nil {
			return linkSize(&c.Resource)
		}
	case *protocol.ToolUse:
		if c != nil {
			return len(c.Input) + len(c.Meta)
		}
	case *protocol.ToolResult:
		if c != nil {
			return contentsSize(c.Content) + len(c.StructuredContent) + len(c.Meta)
		}
	case *protocol.OtherContent:
		if c != nil {
			return len(c.Raw)
		}
	}
	return 0
}

func resourceSize(c *protocol.ResourceContents) int {
	return len(c.URI) + len(c.Text) + base64.StdEncoding.EncodedLen(len(c.Blob)) + len(c.Meta)
}

func linkSize(r *protocol.Resource) int {
	n := len(r.URI) + len(r.Name) + len(r.Title) + len(r.Description) + len(r.Meta) +
		extraSize(r.Extra)
	for _, icon := range r.Icons {
		n += len(icon.Src) // may be a data: URL
	}
	return n
}

func extraSize(extra map[string]json.RawMessage) int {
	n := 0
	for name, value := range extra {
		n += len(name) + len(value)
	}
	return n
}

func questionsSize(r *protocol.InputRequiredResult) int {
	text, _ := r.RequestState.Text()
	n := len(text) + len(r.Meta)
	for _, q := range r.InputRequests {
		n += len(q.Key)
		switch q := q.Request.(type) {
		case *protocol.ElicitForm:
			if q != nil {
				n += len(q.Message) + len(q.Schema) + len(q.Meta)
			}
		case *protocol.ElicitURL:
			if q != nil {
				n += len(q.Message) + len(q.URL) + len(q.Meta)
			}
		case *protocol.CreateMessage:
			if q != nil {
				n += samplingSize(q)
			}
		}
	}
	return n
}

func samplingSize(q *protocol.CreateMessage) int {
	n := len(q.SystemPrompt) + len(q.Metadata) + len(q.Meta)
	for _, m := range q.Messages {
		n += contentsSize(m.Content) + len(m.Meta)
	}
	for i := range q.Tools {
		t := &q.Tools[i]
		n += len(t.Name) + len(t.Description) + len(t.InputSchema) + len(t.OutputSchema) +
			len(t.Meta) + extraSize(t.Extra)
	}
	return n
}
