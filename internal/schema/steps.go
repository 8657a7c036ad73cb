package schema

import (
	"encoding/json"
	"errors"
	"fmt"
)

// counter counts the steps that validating a document would take, by walking document and graph together the way the
// validator does. It takes a branch wherever the validator might. Its own work is a small part of the validator's, and it
// stops when the budget is spent.
type counter struct{ left int64 }

// affordable reports whether v can be validated against n within limit steps.
func affordable(n *node, v any, limit int) bool {
	c := counter{left: int64(limit)}
	c.visit(n, v)
	return c.left >= 0
}

func (c *counter) visit(n *node, v any) {
	c.left -= int64(n.fixed)
	if c.left < 0 {
		return
	}
	switch v := v.(type) {
	case string:
		c.left -= int64(n.text) * int64(1+len(v)/8)
	case map[string]any:
		c.object(n, v)
	case []any:
		c.array(n, v)
	}
	for _, sub := range n.inPlace {
		if c.left < 0 {
			return
		}
		c.visit(sub, v)
	}
}

func (c *counter) object(n *node, members map[string]any) {
	c.left -= int64(len(members))
	if n.properties == nil && n.patterns == nil && n.additional == nil && n.leftMembers == nil && n.names == nil {
		return
	}
	for name, value := range members {
		if c.left < 0 {
			return
		}
		c.left -= int64(n.patternText) * int64(1+len(name)/8)
		known := n.properties[name]
		if known == nil {
			known = n.additional
		}
		c.child(known, value)
		for _, sub := range n.patterns {
			c.child(sub, value)
		}
		c.child(n.leftMembers, value)
		if n.names != nil {
			c.visit(n.names, name)
		}
	}
}

func (c *counter) array(n *node, items []any) {
	c.left -= int64(len(items))
	if n.unique {
		c.encode(items)
	}
	if n.prefix == nil && n.items == nil && n.contains == nil && n.leftItems == nil {
		return
	}
	for i, item := range items {
		if c.left < 0 {
			return
		}
		each := n.items
		if i < len(n.prefix) {
			each = n.prefix[i]
		}
		c.child(each, item)
		c.child(n.contains, item)
		c.child(n.leftItems, item)
	}
}

func (c *counter) child(n *node, v any) {
	if n != nil && c.left >= 0 {
		c.visit(n, v)
	}
}

// encode charges for what uniqueItems does with v.
func (c *counter) encode(v any) {
	c.left -= 2
	if c.left < 0 {
		return
	}
	switch v := v.(type) {
	case string:
		c.left -= int64(len(v) / 64)
	case json.Number:
		c.left -= 8
	case []any:
		for _, item := range v {
			c.encode(item)
		}
	case map[string]any:
		for name, value := range v {
			c.left -= int64(len(name) / 64)
			c.encode(value)
		}
	}
}

var errTooDeep = errors.New("the document is nested too deep")

// checkValue makes sure that v is made of what a JSON decoder makes, is not too deep, and has no number that takes long to
// compute with.
func checkValue(v any, depth int) error {
	switch v := v.(type) {
	case nil, bool, string:
		return nil
	case json.Number:
		return CheckNumber(v)
	case []any:
		if depth == maxDepth {
			return errTooDeep
		}
		for _, item := range v {
			if err := checkValue(item, depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		if depth == maxDepth {
			return errTooDeep
		}
		for _, value := range v {
			if err := checkValue(value, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("a Go value of type %T is not JSON", v)
}
