package protocol

import (
	"cmp"
	"fmt"
	"slices"
)

// downgradeContent returns blocks of content as version v has them. Links to resources exist since
// 2025-06-18 and audio since 2025-03-26. Earlier clients may fail on unknown blocks, so they get
// text instead that says what was left out. It does not change blocks.
func downgradeContent(v Version, blocks []Content) []Content {
	return downgradeBlocks(v, blocks, func(b *Content) *Content { return b })
}

// downgradeMessages is downgradeContent for the messages of a prompt.
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

// substituteFor returns the text that replaces a block which version v does not have, nil when it
// has it.
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
