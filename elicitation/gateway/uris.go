package gateway

import "github.com/rondo-mcp/rondo/protocol"

// publishResult rewrites the URIs in a result so that the client can read them here.
func (u *upstream) publishResult(result protocol.Result) protocol.Result {
	switch r := result.(type) {
	case *protocol.CallToolResult:
		mapped := *r
		mapped.Meta = publishMeta(r.Meta)
		mapped.Content = u.publishContent(r.Content)
		return &mapped
	case *protocol.GetPromptResult:
		mapped := *r
		mapped.Meta = publishMeta(r.Meta)
		mapped.Messages = make([]protocol.PromptMessage, len(r.Messages))
		for i, m := range r.Messages {
			mapped.Messages[i] = m
			if content := u.publishContent([]protocol.Content{m.Content}); len(content) == 1 {
				mapped.Messages[i].Content = content[0]
			}
		}
		return &mapped
	case *protocol.ReadResourceResult:
		mapped := *r
		mapped.Meta = publishMeta(r.Meta)
		mapped.Contents = make([]protocol.ResourceContents, len(r.Contents))
		for i, c := range r.Contents {
			c.URI = u.names.PublishURI(c.URI)
			mapped.Contents[i] = c
		}
		return &mapped
	}
	return result
}

// publishMeta drops who the upstream is: the gateway's server says who answers.
func publishMeta(meta protocol.Meta) protocol.Meta { return meta.Without(protocol.MetaServerInfo) }

func (u *upstream) publishContent(blocks []protocol.Content) []protocol.Content {
	mapped := make([]protocol.Content, len(blocks))
	for i, block := range blocks {
		switch b := block.(type) {
		case *protocol.ResourceLink:
			link := *b
			link.URI = u.names.PublishURI(link.URI)
			mapped[i] = &link
		case *protocol.EmbeddedResource:
			embedded := *b
			embedded.Resource.URI = u.names.PublishURI(embedded.Resource.URI)
			mapped[i] = &embedded
		default:
			mapped[i] = block
		}
	}
	return mapped
}
