package main

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// Order is what the tool takes.
type Order struct {
	Name string `json:"name" jsonschema:"what the database is to be called"`
}

// Region, Size and Review are the forms that the person fills in.
type (
	Region struct {
		Name string `json:"name" title:"Region" enum:"eu,us" enumTitles:"Europe,America"`
	}
	Size struct {
		Gigabytes int `json:"gigabytes" title:"Size" minimum:"1" maximum:"1000" default:"10"`
	}
	Review struct {
		Change string `json:"change" title:"Change" enum:"nothing,size,region" default:"nothing"`
	}
)

// shop is the server's own world. All replicas share the bank.
type shop struct {
	prices prices
	bank   bank
	notify func(string)
}

// prices change by the minute, so that two looks give two prices.
type prices interface {
	Quote(ctx context.Context, region string, gigabytes int) (cents int, err error)
}

// bank moves money. It does so once for each key, however often it is asked.
type bank interface {
	Charge(ctx context.Context, key string, cents int) (receipt string, err error)
}

// provision sells a database. It reads like a program that waits for its user,
// and is run from its start whenever an answer comes in.
func (s *shop) provision(ctx context.Context, _ *server.ToolCall,
	in Order) (protocol.CallToolOutcome, error) {
	cents, text, err := s.agree(ctx, in)
	if err != nil {
		return nil, err
	}
	// What is paid for is part of the name: without a guard a client may take the
	// order back to an earlier state, and answer otherwise.
	key, err := roundtrip.IdempotencyKey(ctx, "charge for "+text)
	if err != nil {
		return nil, err
	}
	receipt, err := s.bank.Charge(ctx, key, cents)
	if err != nil {
		return nil, err
	}
	err = roundtrip.OnCommit(ctx, func(context.Context) { s.notify(in.Name + " is paid") })
	if err != nil {
		return nil, err
	}
	return server.Text(text + ": " + receipt), nil
}

// agree asks until the person wants to change nothing any more. A question that
// is asked again has a key of its own, so that the older answer stays what it
// was an answer to.
func (s *shop) agree(ctx context.Context, in Order) (cents int, text string, err error) {
	region, size, review := Region{}, Size{}, Review{Change: "region"}
	for try := 1; review.Change != "nothing"; try++ {
		if review.Change == "region" {
			region, err = roundtrip.Ask[Region](ctx, fmt.Sprint("region-", try),
				"Where is "+in.Name+" to live?")
			if err != nil {
				return 0, "", err
			}
		}
		// A size is one in a region, so both changes lead here.
		size, err = roundtrip.Ask[Size](ctx, fmt.Sprint("size-", try),
			"How large, in "+region.Name+"?")
		if err != nil {
			return 0, "", err
		}
		cents, err = roundtrip.Memo(ctx, fmt.Sprint("price-", try),
			func(ctx context.Context) (int, error) {
				return s.prices.Quote(ctx, region.Name, size.Gigabytes)
			})
		if err != nil {
			return 0, "", err
		}
		text = fmt.Sprintf("%s, %d GB in %s for %d cents", in.Name, size.Gigabytes,
			region.Name, cents)
		review, err = roundtrip.Ask[Review](ctx, fmt.Sprint("review-", try),
			text+". Change anything?")
		if err != nil {
			return 0, "", err
		}
	}
	return cents, text, nil
}

// newServer returns a replica of the shop's server.
func newServer(s *shop, opts roundtrip.Options) (*server.Server, error) {
	srv, err := server.New(&server.Options{
		Info:      protocol.Implementation{Name: "wizard", Version: "1.0.0"},
		Roundtrip: opts,
	})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "provision", Description: "Sells a database."},
		s.provision)
	return srv, nil
}
