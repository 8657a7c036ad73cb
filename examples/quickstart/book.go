package main

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// Booking is the tool's input. The input schema is derived from it.
type Booking struct {
	Restaurant string `json:"restaurant" jsonschema:"where to book a table"`
}

// Party and Table are the person's forms.
type Party struct {
	People int `json:"people" title:"People" minimum:"1" maximum:"12"`
}

type Table struct {
	Place string `json:"place" title:"Place" enum:"window,garden" default:"garden"`
}

// book asks twice before it acts. On 2026-07-28 each round runs it from its start.
func book(ctx context.Context, call *server.ToolCall,
	in Booking) (protocol.CallToolOutcome, error) {
	party, err := roundtrip.Ask[Party](ctx, "party", "How many people?")
	if err != nil {
		return nil, err
	}
	table, err := roundtrip.Ask[Table](ctx, "table", fmt.Sprintf("Where, for %d?", party.People))
	if err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprintf("%s: a table for %d, %s",
		in.Restaurant, party.People, table.Place)), nil
}
