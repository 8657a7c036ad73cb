package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/server"
)

// addSchemas registers tools whose input schemas say what Go types cannot.
func addSchemas(srv *server.Server) {
	server.AddTool(srv, server.Tool{
		Name: "json_schema_2020_12_tool", Description: "Takes a contact; its schema uses references and conditions.",
		InputSchema: json.RawMessage(contactSchema),
	}, takeContact)
	server.AddTool(srv, server.Tool{
		Name: "test_x_mcp_header", Description: "Takes a region, which clients repeat in a header.",
		InputSchema: json.RawMessage(regionSchema),
	}, takeRegion)
}

// contactSchema is listed as it stands here, and arguments are held against all
// of it before the handler runs.
const contactSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {
		"address": {
			"$anchor": "addressDef",
			"type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
		}
	},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

type contact struct {
	Name    string `json:"name"`
	Address struct {
		Street string `json:"street"`
		City   string `json:"city"`
	} `json:"address"`
	ContactMethod string `json:"contactMethod"`
	Phone         string `json:"phone"`
	Email         string `json:"email"`
}

func takeContact(_ context.Context, _ *server.ToolCall, in contact) (outcome, error) {
	return server.Text(fmt.Sprintf("%s of %s can be reached: %s%s", in.Name, in.Address.City,
		in.Phone, in.Email)), nil
}

// regionSchema has a property that clients send in the header Mcp-Param-Region
// as well, so that proxies can route by it without reading the body.
const regionSchema = `{
	"type": "object",
	"properties": {
		"region": {"type": "string", "description": "where to run", "x-mcp-header": "Region"},
		"level": {"type": "integer", "description": "how hard to try"}
	}
}`

type place struct {
	Region string `json:"region"`
	Level  int    `json:"level"`
}

func takeRegion(_ context.Context, _ *server.ToolCall, in place) (outcome, error) {
	return server.Text(fmt.Sprintf("ran in region %q at level %d", in.Region, in.Level)), nil
}
