package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A Resource is the definition of a resource (server/resources).
type Resource struct {
	URI         string                     `json:"uri"`
	Name        string                     `json:"name"`
	Title       string                     `json:"title,omitzero"`
	Description string                     `json:"description,omitzero"`
	Icons       []Icon                     `json:"icons,omitempty"`
	MIMEType    string                     `json:"mimeType,omitzero"`
	Annotations *Annotations               `json:"annotations,omitzero"`
	Size        *int64                     `json:"size,omitzero"` // bytes, nil when unknown
	Meta        Meta                       `json:"_meta,omitzero"`
	Extra       map[string]json.RawMessage `json:",embed"`
}

// A ResourceTemplate defines a family of resources by an RFC 6570 template.
type ResourceTemplate struct {
	URITemplate string                     `json:"uriTemplate"`
	Name        string                     `json:"name"`
	Title       string                     `json:"title,omitzero"`
	Description string                     `json:"description,omitzero"`
	Icons       []Icon                     `json:"icons,omitempty"`
	MIMEType    string                     `json:"mimeType,omitzero"`
	Annotations *Annotations               `json:"annotations,omitzero"`
	Meta        Meta                       `json:"_meta,omitzero"`
	Extra       map[string]json.RawMessage `json:",embed"`
}

// ResourceContents is the text or the bytes of a resource. A nil Blob means
// that Text holds the content, even when it is empty.
type ResourceContents struct {
	URI      string
	MIMEType string
	Text     string
	Blob     []byte
	Meta     Meta
}

// ListResourcesResult is one page of resources/list.
type ListResourcesResult struct {
	Resources  []Resource
	NextCursor string // empty: the last page
	Cache      CacheHints
	Meta       Meta

	origin *origin // nil: of this program
}

// ListResourceTemplatesResult is one page of resources/templates/list.
type ListResourceTemplatesResult struct {
	ResourceTemplates []ResourceTemplate
	NextCursor        string // empty: the last page
	Cache             CacheHints
	Meta              Meta

	origin *origin // nil: of this program
}

// ReadResourceResult is the contents of a resource; a directory-like resource
// may have several.
type ReadResourceResult struct {
	Contents []ResourceContents
	Cache    CacheHints
	Meta     Meta

	origin *origin // nil: of this program
}

// ReadResourceParams are the parameters of resources/read.
type ReadResourceParams struct {
	URI string
	Retry
	RequestMeta
}

// MarshalJSON returns the text form, or the base64 form when Blob is not nil.
func (c ResourceContents) MarshalJSON() ([]byte, error) {
	w := beginObject(nil)
	w.addText("uri", c.URI)
	w.addNonEmptyText("mimeType", c.MIMEType)
	if c.Blob != nil {
		w.addValue("blob", c.Blob)
	} else {
		w.addText("text", c.Text)
	}
	w.addRawObject("_meta", c.Meta)
	return w.endObject()
}

// UnmarshalJSON reads either form. Exactly one of text and blob must be there.
func (c *ResourceContents) UnmarshalJSON(raw []byte) error {
	*c = ResourceContents{}
	text := false
	err := readChecked(raw, func(key, value []byte) (err error) {
		switch string(key) {
		case "uri":
			err = textMember(&c.URI, key, value)
		case "mimeType":
			err = textMember(&c.MIMEType, key, value)
		case "text":
			text = true
			err = textMember(&c.Text, key, value)
		case "blob":
			if err = decodeMember(&c.Blob, key, value); err == nil && c.Blob == nil {
				err = fmt.Errorf("blob: must be a string")
			}
		case "_meta":
			err = objectMember(&c.Meta, key, append([]byte(nil), value...))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("resource contents: %w", err)
	}
	if text == (c.Blob != nil) {
		return fmt.Errorf("resource contents: exactly one of text and blob must be present")
	}
	return nil
}

func decodeResourceContents(raw []byte) ([]ResourceContents, error) {
	contents := []ResourceContents{}
	err := jsonx.Elements(raw, func(i int, value []byte) error {
		var c ResourceContents
		if err := c.UnmarshalJSON(value); err != nil {
			return fmt.Errorf("contents[%d]: %w", i, err)
		}
		contents = append(contents, c)
		return nil
	})
	return contents, err
}

func (r *Resource) checkComplete() error {
	if r.URI == "" {
		return requireText("uri", "")
	}
	return requireText("name", r.Name)
}

func (t *ResourceTemplate) checkComplete() error {
	if t.URITemplate == "" {
		return requireText("uriTemplate", "")
	}
	return requireText("name", t.Name)
}

func (r *ReadResourceResult) appendMembers(w *objectWriter, v Version) {
	w.addCacheableList(v, "contents", orEmpty(r.Contents), "", r.Cache, r.Meta)
}

func decodeReadResource(data []byte) (Result, error) {
	r := &ReadResourceResult{}
	found := false
	err := decodeCacheable(data, "contents", func(raw []byte) (err error) {
		found = true
		r.Contents, err = decodeResourceContents(raw)
		return err
	}, nil, &r.Cache, &r.Meta)
	if err == nil && !found {
		err = fmt.Errorf("contents: must be present")
	}
	return r, err
}

func (r *ListResourcesResult) appendMembers(w *objectWriter, v Version) {
	w.addCacheableList(v, "resources", orEmpty(r.Resources), r.NextCursor, r.Cache, r.Meta)
}

func decodeListResources(data []byte, report reporter) (Result, error) {
	r := &ListResourcesResult{}
	return r, decodeList(data, "resources", &r.Resources, &r.NextCursor, &r.Cache, &r.Meta,
		report)
}

func (r *ListResourceTemplatesResult) appendMembers(w *objectWriter, v Version) {
	w.addCacheableList(v, "resourceTemplates", orEmpty(r.ResourceTemplates), r.NextCursor, r.Cache,
		r.Meta)
}

func decodeListResourceTemplates(data []byte, report reporter) (Result, error) {
	r := &ListResourceTemplatesResult{}
	err := decodeList(data, "resourceTemplates", &r.ResourceTemplates,
		&r.NextCursor, &r.Cache, &r.Meta, report)
	return r, err
}
