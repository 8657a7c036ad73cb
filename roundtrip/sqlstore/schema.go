package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const schemaVersion = 1

// schema creates the tables. Times are milliseconds since 1970 by the database's clock.
const schema = `create table if not exists rondo_schema (
	id integer not null primary key check (id = 1),
	version integer not null
);
create table if not exists rondo_claims (
	service text not null,
	key text not null,
	owner text not null,
	kind integer not null,
	print {bytes} not null,
	holder {bytes} not null,
	lease bigint not null,
	expires bigint not null,
	outcome {bytes},
	primary key (service, key)
);
create index if not exists rondo_claims_expires on rondo_claims (service, expires);
create table if not exists rondo_states (
	service text not null,
	key text not null,
	owner text not null,
	state {bytes} not null,
	expires bigint not null,
	primary key (service, key)
);
create index if not exists rondo_states_expires on rondo_states (service, expires);
create table if not exists rondo_usage (
	service text not null,
	kind text not null,
	owner text not null,
	entries bigint not null,
	bytes bigint not null,
	primary key (service, kind, owner)
);
create table if not exists rondo_tasks (
	service text not null,
	id {bytes} not null,
	flow {bytes} not null,
	owner text not null,
	number bigint not null,
	holder text not null,
	record {bytes} not null,
	wakes {bytes} not null,
	due bigint,
	keep bigint not null,
	counted bigint,
	primary key (service, id)
);
create unique index if not exists rondo_tasks_flow on rondo_tasks (service, flow);
create index if not exists rondo_tasks_due on rondo_tasks (service, due);
create index if not exists rondo_tasks_keep on rondo_tasks (service, keep);
create table if not exists rondo_wakes (
	service text not null,
	digest {bytes} not null,
	id {bytes} not null,
	primary key (service, digest, id)
);
create index if not exists rondo_wakes_id on rondo_wakes (service, id);
insert into rondo_schema (id, version) values (1, 1) on conflict (id) do nothing;
`

// Schema returns the statements that create the tables, for a migration. They are idempotent.
func Schema(d Dialect) string { return d.write(schema) }

// CreateTables executes [Schema] in one transaction. The account must be allowed to create tables,
// which the server's account need not be. Calls may overlap, even in several processes.
func CreateTables(ctx context.Context, db *sql.DB, d Dialect) error {
	err := inTx(ctx, db, d, func(tx *sql.Tx) error {
		statements := strings.SplitAfter(Schema(d), ";\n")
		if d == PostgreSQL { // which cannot create one table twice at once
			statements = slices.Insert(statements, 0, "select pg_advisory_xact_lock(7236837100)")
		}
		for _, statement := range statements {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sqlstore: create tables: %w", err)
	}
	return nil
}

var errSchema = errors.New("the tables are not those of this release; see sqlstore.Schema")

// neededKeys returns the tables' required keys. Without the unique ones of `on conflict` two
// requests could claim one state; without the others searches scan every row.
func neededKeys() map[string][]key {
	return map[string][]key{
		"rondo_claims": {{"service,key", true}, {"service,expires", false}},
		"rondo_states": {{"service,key", true}, {"service,expires", false}},
		"rondo_usage":  {{"service,kind,owner", true}},
		"rondo_tasks": {{"service,id", true}, {"service,flow", true}, {"service,due", false},
			{"service,keep", false}},
		"rondo_wakes": {{"service,digest,id", true}, {"service,id", false}},
	}
}

type key struct {
	columns string
	unique  bool
}

// checkTables refuses tables in which claims could be lost, doubled or never deleted.
func (s *Store) checkTables(ctx context.Context) error {
	var version int
	err := s.db.QueryRowContext(ctx, "select version from rondo_schema where id = 1").Scan(&version)
	if err != nil {
		return fmt.Errorf("%w: read the version: %w", errSchema, err)
	}
	if version != schemaVersion {
		return fmt.Errorf("%w: version %d, want %d", errSchema, version, schemaVersion)
	}
	for table, keys := range neededKeys() {
		if err := s.checkKeys(ctx, table, keys); err != nil {
			return fmt.Errorf("%w: table %s: %w", errSchema, table, err)
		}
	}
	return s.checkDurability(ctx)
}

// These statements return a table's complete indexes of all rows: columns in order, uniqueness.
const (
	postgresIndexes = `select array_to_string(array(
		select a.attname from unnest(i.indkey) with ordinality as k(n, place)
		join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.n
		where k.place <= i.indnkeyatts order by k.place), ','),
	case when i.indisunique then 1 else 0 end
	from pg_index i
	where i.indrelid = to_regclass($1) and i.indisvalid and i.indpred is null
		and i.indexprs is null`
	sqliteIndexes = `select (select group_concat(name) from
		(select name from pragma_index_info(l.name) order by seqno)), l."unique"
	from pragma_index_list($1) l where l.partial = 0`
)

func (s *Store) checkKeys(ctx context.Context, table string, keys []key) error {
	query := sqliteIndexes
	if s.dialect == PostgreSQL {
		query = postgresIndexes
	}
	rows, err := s.db.QueryContext(ctx, s.dialect.write(query), table)
	if err != nil {
		return err
	}
	defer rows.Close()
	var found []key
	for rows.Next() {
		var k key
		if err := rows.Scan(&k.columns, &k.unique); err != nil {
			return err
		}
		found = append(found, k)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, want := range keys {
		if !slices.ContainsFunc(found, func(k key) bool {
			return k.columns == want.columns && (k.unique || !want.unique)
		}) {
			return fmt.Errorf("there is no index on (%s), unique: %v", want.columns, want.unique)
		}
	}
	return nil
}

// checkDurability refuses settings with which a database crash loses acknowledged writes.
func (s *Store) checkDurability(ctx context.Context) error {
	if s.dialect != PostgreSQL {
		var synchronous int
		err := s.db.QueryRowContext(ctx, "pragma synchronous").Scan(&synchronous)
		if err == nil && synchronous < 2 { // in mode WAL, 1 loses the last writes in a power cut
			err = errors.New("the pragma synchronous is not full: a crash could forget claims")
		}
		return err
	}
	for _, setting := range []string{"fsync", "synchronous_commit"} {
		var value string
		err := s.db.QueryRowContext(ctx, "select current_setting($1)", setting).Scan(&value)
		if err != nil {
			return err
		}
		if value == "off" {
			return fmt.Errorf("the setting %s is off: a crash could forget claims", setting)
		}
	}
	var temporary int
	err := s.db.QueryRowContext(ctx, `select count(*) from pg_class where relpersistence <> 'p'
		and oid in (to_regclass('rondo_claims'), to_regclass('rondo_states'),
			to_regclass('rondo_tasks'))`).Scan(&temporary)
	if err == nil && temporary > 0 {
		err = errors.New("a table is unlogged or temporary: a crash would empty it")
	}
	return err
}
