package protocol

import (
	"cmp"
	"fmt"
	"slices"
)

// downgradeContent returns blocks as version v has them, without changing blocks. Resource links
// exist since 2025-06-18 and audio since 2025-03-26; clients of earlier revisions may fail on
// unknown blocks, so they get text that names the omission.
func downgradeContent(v Version, blocks []Content) []Content {
	return downgradeBlocks(v, blocks, func(b *Content) *Content { return b })
}

func downgradeMessages(v Version, messages []PromptMessage) []PromptMessage {
	return downgradeBlocks(v, messages, func(m *PromptMessage) *Content { return &m.Content })
}

func downgradeBlocks[E any](v Version, list []E, blockOf func(*E) *Content) []E {
	if v >= V20250618 {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		if text := substituteFor(v, *blockOf(&list[i])); text != nil {
			*blockOf(&list[i]) = text
		}
	}
	return list
}

// substituteFor returns the text that replaces a block unknown in version v, or nil for others.
func substituteFor(v Version, block Content) *TextContent {
	switch b := block.(type) {
	case *ResourceLink:
		if b == nil || v >= V20250618 {
			return nil
		}
		text := cmp.Or(b.Title, b.Name) + ": " + b.URI
		return &TextContent{Text: text, Annotations: b.Annotations}
	case *AudioContent:
		if b == nil || v >= V20250326 {
			return nil
		}
		text := fmt.Sprintf("[%s, %d bytes, which revision %s of the protocol cannot carry]",
			b.MIMEType, len(b.Data), v)
		return &TextContent{Text: text, Annotations: b.Annotations}
	}
	return nil
}
