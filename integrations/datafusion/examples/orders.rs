//! Orders and their customers in SQL: `cargo run -p lanetree-datafusion --example orders`.

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use lanetree::Device;
use lanetree_datafusion::{Costs, IndexedTable, with_index_lookups_on};
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<()> {
    let config = SessionConfig::new().with_target_partitions(1);
    let state = SessionStateBuilder::new().with_config(config).with_default_features();
    // By the default costs, a hash join would be chosen for so few rows.
    let state = with_index_lookups_on(state, &Device::best(), Costs::ALWAYS).build();
    let context = SessionContext::new_with_state(state);

    let customers = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![30, 10, 20])) as ArrayRef),
        ("name", Arc::new(StringArray::from(vec!["Grace", "Ada", "Edsger"]))),
    ])?;
    let customers = IndexedTable::new(&Device::best(), customers.schema(), &[customers], "id")?;
    println!("{:?}", customers.index("id")?.expect("it was just made"));
    context.register_table("customers", Arc::new(customers))?;
    let orders = RecordBatch::try_from_iter([
        ("customer", Arc::new(Int64Array::from(vec![Some(20), Some(10), Some(40), None, Some(20)])) as ArrayRef),
        ("amount", Arc::new(Int64Array::from(vec![5, 7, 11, 13, 17]))),
    ])?;
    context.register_batch("orders", orders)?;

    for sql in [
        "SELECT * FROM customers WHERE id BETWEEN 10 AND 25",
        "SELECT name, amount FROM orders LEFT JOIN customers ON customer = id",
    ] {
        println!("\n{sql}");
        let query = context.sql(sql).await?;
        let plan = query.clone().create_physical_plan().await?;
        print!("{}", displayable(&*plan).indent(false));
        query.show().await?;
    }
    Ok(())
}
