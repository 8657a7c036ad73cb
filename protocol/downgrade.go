package protocol

import (
	"fmt"
	"slices"
)

// downgradeContent returns blocks of content as version v may have them: there are links
// to resources since 2025-06-18 and there is audio since 2025-03-26. Earlier
// clients, which may fail on blocks that they do not know, get text that says
// what they miss. The blocks given stay as they are.
func downgradeContent(v Version, blocks []Content) []Content {
	if v >= V20250618 || !slices.ContainsFunc(blocks, func(b Content) bool { return substituteFor(v, b) != nil }) {
		return blocks
	}
	spelled := slices.Clone(blocks)
	for i, b := range blocks {
		if text := substituteFor(v, b); text != nil {
			spelled[i] = text
		}
	}
	return spelled
}

// downgradeMessages is older for the messages of a prompt.
func downgradeMessages(v Version, messages []PromptMessage) []PromptMessage {
	if v >= V20250618 || !slices.ContainsFunc(messages, func(m PromptMessage) bool { return substituteFor(v, m.Content) != nil }) {
		return messages
	}
	spelled := slices.Clone(messages)
	for i, m := range messages {
		if text := substituteFor(v, m.Content); text != nil {
			spelled[i].Content = text
		}
	}
	return spelled
}

// substituteFor returns what stands for a block that version v does not have, nil
// when it has it.
func substituteFor(v Version, block Content) *TextContent {
	switch b := block.(type) {
	case *ResourceLink:
		if b == nil || v >= V20250618 {
			return nil
		}
		name := b.Title
		if name == "" {
			name = b.Name
		}
		return &TextContent{Text: name + ": " + b.URI, Annotations: b.Annotations}
	case *AudioContent:
		if b == nil || v >= V20250326 {
			return nil
		}
		text := fmt.Sprintf("[%s, %d bytes, which revision %s of the protocol cannot carry]", b.MIMEType, len(b.Data), v)
		return &TextContent{Text: text, Annotations: b.Annotations}
	}
	return nil
}
