package roundtriptest

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/rondo-mcp/rondo/internal/attack"
)

// Connector returns a connector of package database/sql that counts each statement as an effect
// and passes it to the driver:
//
//	db := sql.OpenDB(effects.Connector(&sqlite3.SQLiteDriver{}, "file:test.db"))
//
// A flow fails if the same statement, arguments included, is executed in two rounds. Statements
// that read (SELECT, SHOW, EXPLAIN, VALUES and PRAGMA) may be repeated: they are shown and no more.
// Of a statement the text is shown, of its arguments nothing.
func (e *Effects) Connector(d driver.Driver, dsn string) driver.Connector {
	return &countingConnector{effects: &e.seen, driver: d, dsn: dsn}
}

type countingConnector struct {
	effects *attack.Effects
	driver  driver.Driver
	dsn     string
}

// Connect opens a connection of the driver.
func (c *countingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	var conn driver.Conn
	var err error
	if d, ok := c.driver.(driver.DriverContext); ok {
		var opened driver.Connector
		if opened, err = d.OpenConnector(c.dsn); err == nil {
			conn, err = opened.Connect(ctx)
		}
	} else {
		conn, err = c.driver.Open(c.dsn)
	}
	if err != nil {
		return nil, err
	}
	return &countingConn{Conn: conn, effects: c.effects}, nil
}

// Driver returns the driver that was given.
func (c *countingConnector) Driver() driver.Driver { return c.driver }

// countStatement records a statement that is about to be executed.
func countStatement(effects *attack.Effects, query string, args []driver.NamedValue) {
	digest := sha256.New()
	for _, arg := range args {
		fmt.Fprintf(digest, "%d %s %T %v\n", arg.Ordinal, arg.Name, arg.Value, arg.Value)
	}
	text := strings.Join(strings.Fields(query), " ")
	effects.Record(attack.Effect{Text: text, Identity: string(digest.Sum(nil)),
		Repeatable: onlyReads(text)})
}

// onlyReads reports whether a statement changes nothing, as far as its first word tells.
func onlyReads(query string) bool {
	first, rest, _ := strings.Cut(strings.TrimLeft(query, "( "), " ")
	switch strings.ToUpper(first) {
	case "SELECT":
		return !strings.Contains(strings.ToUpper(rest), " INTO ")
	case "SHOW", "EXPLAIN", "VALUES":
		return true
	case "PRAGMA":
		return !strings.Contains(rest, "=")
	}
	return false
}

// A countingConn passes on what its connection can do. What the connection cannot do, it refuses
// with driver.ErrSkip, and package sql finds another way.
type countingConn struct {
	driver.Conn
	effects *attack.Effects
}

// Prepare implements driver.Conn.
func (c *countingConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *countingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var stmt driver.Stmt
	var err error
	if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
		stmt, err = p.PrepareContext(ctx, query)
	} else {
		stmt, err = c.Conn.Prepare(query)
	}
	if err != nil {
		return nil, err
	}
	return &countingStmt{Stmt: stmt, conn: c, query: query}, nil
}

// ExecContext implements driver.ExecerContext.
func (c *countingConn) ExecContext(ctx context.Context, query string,
	args []driver.NamedValue) (driver.Result, error) {
	x, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip // it is prepared then, and counted there
	}
	result, err := x.ExecContext(ctx, query, args)
	if !errors.Is(err, driver.ErrSkip) {
		countStatement(c.effects, query, args)
	}
	return result, err
}

// QueryContext implements driver.QueryerContext.
func (c *countingConn) QueryContext(ctx context.Context, query string,
	args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	rows, err := q.QueryContext(ctx, query, args)
	if !errors.Is(err, driver.ErrSkip) {
		countStatement(c.effects, query, args)
	}
	return rows, err
}

// BeginTx implements driver.ConnBeginTx. A connection that cannot choose refuses what is not the
// default, as package sql does for drivers without contexts.
func (c *countingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if b, ok := c.Conn.(driver.ConnBeginTx); ok {
		return b.BeginTx(ctx, opts)
	}
	if opts != (driver.TxOptions{}) {
		return nil, errors.New("roundtriptest: the driver does not support this kind of transaction")
	}
	//lint:ignore SA1019 what older drivers have
	return c.Conn.Begin()
}

// Ping implements driver.Pinger.
func (c *countingConn) Ping(ctx context.Context) error {
	if p, ok := c.Conn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

// ResetSession implements driver.SessionResetter.
func (c *countingConn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// IsValid implements driver.Validator.
func (c *countingConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *countingConn) CheckNamedValue(value *driver.NamedValue) error {
	if n, ok := c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(value)
	}
	return driver.ErrSkip
}

// A countingStmt counts a prepared statement each time that it is executed.
type countingStmt struct {
	driver.Stmt
	conn  *countingConn
	query string
}

// ExecContext implements driver.StmtExecContext.
func (s *countingStmt) ExecContext(ctx context.Context,
	args []driver.NamedValue) (driver.Result, error) {
	countStatement(s.conn.effects, s.query, args)
	if x, ok := s.Stmt.(driver.StmtExecContext); ok {
		return x.ExecContext(ctx, args)
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 what older drivers have
	return s.Stmt.Exec(values)
}

// QueryContext implements driver.StmtQueryContext.
func (s *countingStmt) QueryContext(ctx context.Context,
	args []driver.NamedValue) (driver.Rows, error) {
	countStatement(s.conn.effects, s.query, args)
	if q, ok := s.Stmt.(driver.StmtQueryContext); ok {
		return q.QueryContext(ctx, args)
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 what older drivers have
	return s.Stmt.Query(values)
}

// CheckNamedValue implements driver.NamedValueChecker, and driver.ColumnConverter for statements
// that have that instead.
func (s *countingStmt) CheckNamedValue(value *driver.NamedValue) error {
	if n, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(value)
	}
	//lint:ignore SA1019 what older drivers have
	if c, ok := s.Stmt.(driver.ColumnConverter); ok {
		converted, err := c.ColumnConverter(value.Ordinal - 1).ConvertValue(value.Value)
		value.Value = converted
		return err
	}
	return s.conn.CheckNamedValue(value)
}

// plainValues returns arguments for a statement that has no contexts and no names.
func plainValues(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, arg := range args {
		if arg.Name != "" {
			return nil, errors.New("roundtriptest: the driver does not support named arguments")
		}
		values[i] = arg.Value
	}
	return values, ctx.Err()
}
