package main

import (
	"context"
	"database/sql"
	"fmt"

	// A driver for MCP_DATABASE. This module requires none, so add yours:
	//	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
)

// driver is the name under which the driver has registered itself.
const driver = "pgx"

// openShared returns what the replicas share in the PostgreSQL at an address: which states were
// used, and the states that are too large for the wire. Nil: one process keeps that for itself.
func openShared(ctx context.Context, address string) (*sqlstore.Store, error) {
	if address == "" {
		return nil, nil
	}
	db, err := sql.Open(driver, address) // "pgx", of github.com/jackc/pgx/v5/stdlib
	if err != nil {
		return nil, fmt.Errorf("%s: %w: see database.go", envDatabase, err)
	}
	if err := sqlstore.CreateTables(ctx, db, sqlstore.PostgreSQL); err != nil {
		return nil, fmt.Errorf("%s: %w", envDatabase, err)
	}
	shared, err := sqlstore.New(ctx, db, &sqlstore.Options{Service: "bank"})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envDatabase, err)
	}
	return shared, nil
}
