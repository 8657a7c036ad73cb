package protocol

import (
	"encoding/json"
	"fmt"
	"slices"

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

// ResourceContents is a resource's text or bytes: if Blob is nil it is Text, even if empty.
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
	NextCursor string // empty on the last page
	Cache      CacheHints
	Meta       Meta

	provenance
}

// ListResourceTemplatesResult is one page of resources/templates/list.
type ListResourceTemplatesResult struct {
	ResourceTemplates []ResourceTemplate
	NextCursor        string // empty on the last page
	Cache             CacheHints
	Meta              Meta

	provenance
}

// ReadResourceResult is the contents of a resource; a directory may have several.
type ReadResourceResult struct {
	Contents []ResourceContents
	Cache    CacheHints
	Meta     Meta

	provenance
}

// ReadResourceParams are the parameters of resources/read.
type ReadResourceParams struct {
	URI string
	Retry
	RequestMeta
}

// MarshalJSON returns the base64 form if Blob is not nil, otherwise the text form.
func (c ResourceContents) MarshalJSON() ([]byte, error) {
	w := beginObject(nil)
	w.keepError(c.codeMembers(&w, member{}))
	return w.endObject()
}

func (c *ResourceContents) codeMembers(w *objectWriter, m member) error {
	err := firstError(
		w.codeText(m, "uri", &c.URI),
		w.codeNonEmptyText(m, "mimeType", &c.MIMEType),
		w.codeValue(m, "blob", &c.Blob, c.Blob != nil))
	if w == nil || c.Blob == nil {
		err = firstError(err, w.codeText(m, "text", &c.Text))
	}
	return firstError(err, w.codeMeta(m, &c.Meta))
}

// UnmarshalJSON reads either form. Exactly one of text and blob must be present.
func (c *ResourceContents) UnmarshalJSON(raw []byte) error {
	*c = ResourceContents{}
	text := false
	err := jsonx.Check(raw)
	if err == nil {
		err = readMembers(raw, func(key, value []byte) error {
			text = text || string(key) == "text"
			return c.codeMembers(nil, member{key, value, nil})
		})
	}
	c.Meta = slices.Clone(c.Meta)
	if err != nil {
		return fmt.Errorf("resource contents: %w", err)
	}
	if text == (c.Blob != nil) {
		return fmt.Errorf("resource contents: exactly one of text and blob must be present")
	}
	return nil
}

func (r *Resource) checkComplete() error {
	return firstError(requireText("uri", r.URI), requireText("name", r.Name))
}

func (t *ResourceTemplate) checkComplete() error {
	return firstError(requireText("uriTemplate", t.URITemplate), requireText("name", t.Name))
}

func (r *ReadResourceResult) checkComplete() error { return requireList("contents", r.Contents) }

func (r *ReadResourceResult) codeMembers(w *objectWriter, m member) (err error) {
	if m.reads("contents") {
		r.Contents, err = decodeSome(m.value, "contents", m.about,
			func(value []byte) (c ResourceContents, err error) { return c, c.UnmarshalJSON(value) })
		return nameMember(m.key, err)
	}
	return firstError(
		w.codeValue(m, "contents", &r.Contents, true),
		w.codeHints(m, &r.Cache),
		w.codeMeta(m, &r.Meta))
}

func (r *ListResourcesResult) checkComplete() error { return requireList("resources", r.Resources) }

func (r *ListResourcesResult) codeMembers(w *objectWriter, m member) error {
	return codeList(w, m, "resources", &r.Resources, &r.NextCursor, &r.Cache, &r.Meta)
}

func (r *ListResourceTemplatesResult) checkComplete() error {
	return requireList("resourceTemplates", r.ResourceTemplates)
}

func (r *ListResourceTemplatesResult) codeMembers(w *objectWriter, m member) error {
	return codeList(w, m, "resourceTemplates", &r.ResourceTemplates, &r.NextCursor, &r.Cache, &r.Meta)
}
