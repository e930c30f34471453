// Reads from ClickHouse with clickhouse-go over HTTP, as the ClickHouse plugin of Grafana does.
//
// Usage: main <address> <user> <password>. Prints the results as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

const endless = "SELECT sum(sipHash64(number)) FROM numbers(100000000000)"

func main() {
	results := map[string]any{}
	for name, method := range map[string]clickhouse.CompressionMethod{
		"none": clickhouse.CompressionNone,
		"lz4":  clickhouse.CompressionLZ4,
		"gzip": clickhouse.CompressionGZIP,
	} {
		results[name] = read(method)
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		panic(err)
	}
}

func read(method clickhouse.CompressionMethod) map[string]any {
	connection := clickhouse.OpenDB(&clickhouse.Options{
		Protocol:    clickhouse.HTTP,
		Addr:        []string{os.Args[1]},
		Auth:        clickhouse.Auth{Database: "questlog", Username: os.Args[2], Password: os.Args[3]},
		Compression: &clickhouse.Compression{Method: method},
		Settings:    clickhouse.Settings{"max_execution_time": 60},
	})
	defer connection.Close()
	// The client turns a deadline into a time limit that is five seconds longer.
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()

	query := func(sql string, arguments ...any) ([]string, []string, error) {
		rows, err := connection.QueryContext(ctx, sql, arguments...)
		if err != nil {
			return nil, nil, err
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			return nil, nil, err
		}
		var lines []string
		for rows.Next() {
			values := make([]any, len(columns))
			for at := range values {
				values[at] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				return nil, nil, err
			}
			for at := range values {
				values[at] = *values[at].(*any)
				if number, isBig := values[at].(big.Int); isBig {
					values[at] = number.String()
				}
			}
			line, err := json.Marshal(values)
			if err != nil {
				return nil, nil, err
			}
			lines = append(lines, string(line))
		}
		return columns, lines, rows.Err()
	}
	must := func(lines []string, err error) []string {
		if err != nil {
			panic(fmt.Sprintf("%v: %v", method, err))
		}
		return lines
	}
	code := func(err error) int32 {
		var exception *clickhouse.Exception
		if errors.As(err, &exception) {
			return exception.Code
		}
		panic(fmt.Sprintf("%v: no exception: %v", method, err))
	}

	result := map[string]any{}
	_, tables, err := query("SELECT name FROM system.tables WHERE database = {database:String} AND name = 'all_types'",
		clickhouse.Named("database", "questlog"))
	result["tables"] = must(tables, err)
	// The ClickHouse plugin of Grafana lists tables and columns with these statements.
	_, shown, err := query(`SHOW TABLES FROM "questlog"`)
	result["shown"] = must(shown, err)
	_, described, err := query(`DESC TABLE "questlog"."all_types"`)
	result["described"] = len(must(described, err))
	columns, types, err := query("SELECT * FROM all_types ORDER BY u")
	result["columns"], result["types"] = columns, must(types, err)
	_, none, err := query("SELECT * FROM all_types WHERE u > 1000")
	result["noRows"] = len(must(none, err))

	rows, err := connection.QueryContext(ctx, "SELECT number, toString(number) AS text FROM numbers(1000000)")
	must(nil, err)
	count, sum := 0, uint64(0)
	for rows.Next() {
		var number uint64
		var text string
		must(nil, rows.Scan(&number, &text))
		count, sum = count+1, sum+uint64(len(text))
	}
	must(nil, rows.Err())
	result["rows"], result["characters"] = count, sum

	_, _, err = query("SELECT * FROM no_such_table")
	result["error"] = code(err)
	_, _, err = query(endless + " SETTINGS max_execution_time = 1")
	result["timeout"] = code(err)
	canceled, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	_, err = connection.QueryContext(canceled, endless)
	result["canceled"] = errors.Is(err, context.DeadlineExceeded)
	return result
}
