package reference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// Dial returns a client: one struct out and one in for each leg.
func Dial(_ context.Context, endpoint string, hc *http.Client) (wire.Caller, error) {
	return &caller{client: hc, endpoint: endpoint}, nil
}

type caller struct {
	client   *http.Client
	endpoint string
	id       int
}

func (*caller) Close() error { return nil }

type params struct {
	Name           string                     `json:"name"`
	Arguments      map[string]any             `json:"arguments"`
	Meta           json.RawMessage            `json:"_meta"`
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
	RequestState   string                     `json:"requestState,omitempty"`
}

type message struct {
	JSONRPC string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  params `json:"params"`
}

type response struct {
	ID     json.RawMessage `json:"id"`
	Error  json.RawMessage `json:"error"`
	Result struct {
		Type    string                     `json:"resultType"`
		Asked   map[string]json.RawMessage `json:"inputRequests"`
		State   string                     `json:"requestState"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
}

func (c *caller) Call(ctx context.Context, tool string, args map[string]any) (string, error) {
	p := params{Name: tool, Arguments: args, Meta: json.RawMessage(wire.Meta)}
	for {
		r, err := c.post(ctx, &p)
		if err != nil {
			return "", err
		}
		if r.Result.Type != "input_required" {
			if r.Error != nil || len(r.Result.Content) != 1 {
				return "", errors.New("unexpected response")
			}
			return r.Result.Content[0].Text, nil
		}
		p.RequestState = r.Result.State
		p.InputResponses = make(map[string]json.RawMessage, len(r.Result.Asked))
		for key := range r.Result.Asked {
			p.InputResponses[key] = json.RawMessage(`{"action":"accept","content":{"approve":true}}`)
		}
	}
}

func (c *caller) post(ctx context.Context, p *params) (*response, error) {
	c.id++
	body, err := json.Marshal(message{"2.0", c.id, "tools/call", *p})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", c.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = wire.Header(p.Name)
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	r := new(response)
	return r, json.Unmarshal(data, r)
}
