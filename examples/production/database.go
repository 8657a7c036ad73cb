package main

import (
	"context"
	"database/sql"
	"fmt"

	// Import a driver for MCP_DATABASE here. This module requires none, so add yours:
	//	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
)

const driver = "pgx" // the driver's registered name

// openShared returns the replicas' shared store in PostgreSQL: used states, and states that are too
// large for the wire. It returns nil for a single process, which keeps them in memory.
func openShared(ctx context.Context, address string) (*sqlstore.Store, error) {
	if address == "" {
		return nil, nil
	}
	db, err := sql.Open(driver, address) // "pgx", of github.com/jackc/pgx/v5/stdlib
	if err != nil {
		return nil, fmt.Errorf("%s: %w: see database.go", envDatabase, err)
	}
	db.SetMaxOpenConns(20) // the sum over all replicas must stay below the database's limit
	if err := sqlstore.CreateTables(ctx, db, sqlstore.PostgreSQL); err != nil {
		return nil, fmt.Errorf("%s: %w", envDatabase, err)
	}
	shared, err := sqlstore.New(ctx, db, &sqlstore.Options{Service: "bank"})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envDatabase, err)
	}
	return shared, nil
}
