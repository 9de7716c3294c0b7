//! Nodes and the edges between them: which fields each source must take out of its records, which columns flow over each
//! edge, and which operators run chained in one task. Pure: `plan` is a function of what the nodes say of themselves.
//!
//! A port either declares its columns, or is *open*: what goes out of it are the rows of its node's inputs, with whatever
//! columns they have. What later nodes want of an open port is pushed back to where the records are parsed, once.

use crate::record::{Field, Schema, ValueType};
use std::collections::BTreeSet;

/// A pointer such as `/city`.
pub type Pointer = String;

/// What a node says of itself. Nodes are named by their place in the list.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// Its name in the job.
    pub name: String,
    /// What part it has.
    pub role: Role,
    /// Tasks it runs in.
    pub parallelism: usize,
    /// What it reads. Sources read nothing.
    pub inputs: Vec<Input>,
    /// What it puts out, port 0 first. Sinks have none.
    pub ports: Vec<Port>,
}

/// What part a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Records come in.
    Source,
    /// Logic.
    #[default]
    Operator,
    /// Records go out.
    Sink,
}

/// One input of a node.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Node and port it reads.
    pub from: (usize, usize),
    /// The fields that make its key; empty where it is not keyed.
    pub key: Vec<Pointer>,
    /// The fields it reads by itself.
    pub wants: Vec<Field>,
    /// It reads whole values. A sink does where its port declares no columns and the job names none.
    pub whole_values: bool,
    /// Every task gets every row.
    pub broadcast: bool,
}

/// One output of a node.
#[derive(Debug, Clone, Default)]
pub struct Port {
    /// Its name; the main output's is empty.
    pub name: String,
    /// The columns it declares; none where rows of the inputs pass on.
    pub columns: Option<Schema>,
    /// The node may take rows back that it sent, beside those that it passes on.
    pub retracts: bool,
    /// Fields under which its rows keep the key that the node's task owns; a reader keyed by the same runs chained.
    pub keyed_by: Vec<Pointer>,
}

/// How everything is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What flows into each input of each node.
    pub inputs: Vec<Vec<Edge>>,
    /// What flows out of each port of each node, read or not.
    pub ports: Vec<Vec<Flow>>,
    /// Operators that run in one task, in order; each begins with one that an exchange feeds.
    pub chains: Vec<Vec<usize>>,
}

/// What flows over one edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Node and port it comes from.
    pub from: (usize, usize),
    /// What flows.
    pub flow: Flow,
    /// Positions of the key's columns.
    pub key: Vec<usize>,
    /// Position of each wanted field, in the order of `Input::wants`. A declared column may have another type than the
    /// wanted one; the reader converts.
    pub wants: Vec<usize>,
}

/// The columns of a port, and whether its rows carry whole values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flow {
    /// Its columns.
    pub schema: Schema,
    /// Rows carry whole values because some reader wants them.
    pub whole_values: bool,
}

/// Why nodes do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Data would run in circles.
    #[error("the job has a cycle: {}", .0.join(" → "))]
    Cycle(Vec<String>),
    /// A reader wants a column that is not there.
    #[error("`{reader}` reads `{pointer}`, which is no column of `{from}`; it has {}", .columns.join(", "))]
    NoColumn {
        /// The reading node.
        reader: String,
        /// What it wants.
        pointer: Pointer,
        /// Whose output.
        from: String,
        /// What there is.
        columns: Vec<Pointer>,
    },
    /// A reader wants whole values of columns.
    #[error("`{reader}` reads whole values, but the output of `{from}` has columns and no values")]
    NoValues {
        /// The reading node.
        reader: String,
        /// Whose output.
        from: String,
    },
    /// Rows of several inputs would pass on with different columns.
    #[error("`{node}` passes on rows of inputs whose columns differ; give its output columns of its own")]
    MixedPort {
        /// The node.
        node: String,
    },
}

/// Connects the nodes.
///
/// # Errors
/// They do not fit together: [`Error`].
pub fn plan(nodes: &[Node]) -> Result<Plan, Error> {
    let order = topological(nodes)?;
    let needs = push_back(nodes, &order);
    let ports = flows(nodes, &order, &needs)?;
    let inputs = nodes.iter().map(|node| edges(nodes, &ports, node)).collect::<Result<_, _>>()?;
    Ok(Plan { inputs, ports, chains: chains(nodes, &order) })
}

/// The declared columns that a port's rows have; none where they come from a source, which has any field.
pub fn declared(nodes: &[Node], (node, port): (usize, usize)) -> Option<&Schema> {
    let mut at = (node, port);
    for _ in 0..=nodes.len() {
        match &nodes[at.0].ports[at.1].columns {
            Some(columns) => return Some(columns),
            None => at = nodes[at.0].inputs.first()?.from,
        }
    }
    None
}

/// Whether rows of a port may take earlier ones back. Of nodes without a cycle.
pub fn may_retract(nodes: &[Node], (node, port): (usize, usize)) -> bool {
    let (node, port) = (&nodes[node], &nodes[node].ports[port]);
    port.retracts || port.columns.is_none() && node.inputs.iter().any(|input| may_retract(nodes, input.from))
}

fn topological(nodes: &[Node]) -> Result<Vec<usize>, Error> {
    let mut order = Vec::with_capacity(nodes.len());
    let mut path = Vec::new();
    let mut done = vec![false; nodes.len()];
    fn visit(
        nodes: &[Node],
        at: usize,
        done: &mut [bool],
        path: &mut Vec<usize>,
        order: &mut Vec<usize>,
    ) -> Result<(), Error> {
        if done[at] {
            return Ok(());
        }
        if let Some(start) = path.iter().position(|&seen| seen == at) {
            // The path runs against the data: turn it round to read as rows travel.
            let mut names: Vec<String> = path[start..].iter().map(|&node| nodes[node].name.clone()).collect();
            names.push(nodes[at].name.clone());
            names.reverse();
            return Err(Error::Cycle(names));
        }
        path.push(at);
        for input in &nodes[at].inputs {
            visit(nodes, input.from.0, done, path, order)?;
        }
        path.pop();
        done[at] = true;
        order.push(at);
        Ok(())
    }
    for at in 0..nodes.len() {
        visit(nodes, at, &mut done, &mut path, &mut order)?;
    }
    Ok(order)
}

/// What is wanted of each open port: fields, and whether whole values.
type Needs = Vec<Vec<(BTreeSet<(Pointer, u8)>, bool)>>;

fn push_back(nodes: &[Node], order: &[usize]) -> Needs {
    let mut needs: Needs = nodes.iter().map(|node| vec![(BTreeSet::new(), false); node.ports.len()]).collect();
    for &at in order.iter().rev() {
        let node = &nodes[at];
        let open = node.ports.iter().zip(&needs[at]).filter(|(port, _)| port.columns.is_none());
        let mut passed: BTreeSet<(Pointer, u8)> = BTreeSet::new();
        let mut passed_values = false;
        for (_, (fields, values)) in open {
            passed.extend(fields.iter().cloned());
            passed_values |= values;
        }
        for input in &node.inputs {
            let (fields, values) = &mut needs[input.from.0][input.from.1];
            fields.extend(passed.iter().cloned());
            fields.extend(input.wants.iter().map(|field| (field.pointer.clone(), tag(field.value_type))));
            fields.extend(input.key.iter().map(|pointer| (pointer.clone(), tag(ValueType::Scalar))));
            *values |= passed_values || input.whole_values;
        }
    }
    needs
}

const TYPES: [ValueType; 6] =
    [ValueType::Text, ValueType::Bytes, ValueType::Int, ValueType::Float, ValueType::Boolean, ValueType::Scalar];

/// Types in a fixed order, so that a source's columns are the same in every run.
fn tag(value_type: ValueType) -> u8 {
    TYPES.iter().position(|&known| known == value_type).expect("every type is listed") as u8
}

fn flows(nodes: &[Node], order: &[usize], needs: &Needs) -> Result<Vec<Vec<Flow>>, Error> {
    let mut flows: Vec<Vec<Flow>> = nodes.iter().map(|node| vec![Flow::default(); node.ports.len()]).collect();
    for &at in order {
        let node = &nodes[at];
        // A source parses once for all its ports.
        let mut wanted = BTreeSet::new();
        let mut values = false;
        needs[at].iter().for_each(|(fields, whole)| {
            wanted.extend(fields.iter().cloned());
            values |= whole;
        });
        for (place, port) in node.ports.iter().enumerate() {
            flows[at][place] = match &port.columns {
                Some(columns) => Flow { schema: columns.clone(), whole_values: false },
                None if node.role == Role::Source => Flow {
                    schema: Schema {
                        fields: wanted
                            .iter()
                            .map(|(pointer, tag)| Field::new(pointer, TYPES[usize::from(*tag)]))
                            .collect(),
                    },
                    whole_values: values,
                },
                None => passed(node, &flows)?,
            };
        }
    }
    Ok(flows)
}

fn passed(node: &Node, flows: &[Vec<Flow>]) -> Result<Flow, Error> {
    let mut inputs = node.inputs.iter().map(|input| &flows[input.from.0][input.from.1]);
    let first = inputs.next().cloned().unwrap_or_default();
    if inputs.any(|flow| flow.schema != first.schema) {
        return Err(Error::MixedPort { node: node.name.clone() });
    }
    Ok(first)
}

fn edges(nodes: &[Node], ports: &[Vec<Flow>], node: &Node) -> Result<Vec<Edge>, Error> {
    node.inputs.iter().map(|input| edge(nodes, ports, node, input)).collect()
}

fn edge(nodes: &[Node], ports: &[Vec<Flow>], node: &Node, input: &Input) -> Result<Edge, Error> {
    let (from, port) = input.from;
    let flow = &ports[from][port];
    let missing = |pointer: &Pointer| Error::NoColumn {
        reader: node.name.clone(),
        pointer: pointer.clone(),
        from: nodes[from].name.clone(),
        columns: flow.schema.fields.iter().map(|field| format!("`{}`", field.pointer)).collect(),
    };
    let find = |pointer: &Pointer, value_type| {
        flow.schema.position(pointer, value_type).or_else(|| flow.schema.find(pointer)).ok_or_else(|| missing(pointer))
    };
    let is_declared = declared(nodes, input.from).is_some();
    if input.whole_values && is_declared && node.role != Role::Sink {
        return Err(Error::NoValues { reader: node.name.clone(), from: nodes[from].name.clone() });
    }
    Ok(Edge {
        from: input.from,
        flow: flow.clone(),
        key: input.key.iter().map(|pointer| find(pointer, ValueType::Scalar)).collect::<Result<_, _>>()?,
        wants: input.wants.iter().map(|field| find(&field.pointer, field.value_type)).collect::<Result<_, _>>()?,
    })
}

fn chains(nodes: &[Node], order: &[usize]) -> Vec<Vec<usize>> {
    let mut chains: Vec<Vec<usize>> = Vec::new();
    for &at in order.iter().filter(|&&at| nodes[at].role == Role::Operator) {
        match chained_to(nodes, at).and_then(|from| chains.iter_mut().find(|chain| chain.contains(&from))) {
            Some(chain) => chain.push(at),
            None => chains.push(vec![at]),
        }
    }
    chains
}

/// The operator in whose task `at` can run: its only input, in as many tasks, with rows that stay where they are.
fn chained_to(nodes: &[Node], at: usize) -> Option<usize> {
    let node = &nodes[at];
    let [input] = node.inputs.as_slice() else { return None };
    let from = &nodes[input.from.0];
    let stays = input.key.is_empty() || from.ports[input.from.1].keyed_by == input.key;
    let is_chained = from.role == Role::Operator && from.parallelism == node.parallelism && stays && !input.broadcast;
    is_chained.then_some(input.from.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str) -> Node {
        Node { name: name.into(), role: Role::Source, parallelism: 1, ports: vec![Port::default()], ..Node::default() }
    }

    fn sink(name: &str, from: (usize, usize)) -> Node {
        let inputs = vec![Input { from, whole_values: true, ..Input::default() }];
        Node { name: name.into(), role: Role::Sink, parallelism: 1, inputs, ..Node::default() }
    }

    fn operator(name: &str, from: (usize, usize), key: &str, wants: &[Field], columns: Option<&[&str]>) -> Node {
        let columns = columns.map(|columns| Schema {
            fields: columns.iter().map(|&column| Field::new(column, ValueType::Int)).collect(),
        });
        let key = if key.is_empty() { vec![] } else { vec![key.to_string()] };
        let inputs = vec![Input { from, key, wants: wants.to_vec(), ..Input::default() }];
        let ports = vec![Port { columns, ..Port::default() }];
        Node { name: name.into(), role: Role::Operator, parallelism: 1, inputs, ports }
    }

    fn pointers(flow: &Flow) -> Vec<(&str, ValueType)> {
        flow.schema.fields.iter().map(|field| (field.pointer.as_str(), field.value_type)).collect()
    }

    #[test]
    fn fields_that_later_nodes_want_are_taken_out_at_the_source_once() {
        let nodes = [
            source("rides"),
            operator("dedup", (0, 0), "/id", &[], None),
            operator("count", (1, 0), "/city", &[Field::new("/fare", ValueType::Float)], Some(&["/key", "/count"])),
            sink("out", (2, 0)),
        ];
        let plan = plan(&nodes).unwrap();
        let expected = [("/city", ValueType::Scalar), ("/fare", ValueType::Float), ("/id", ValueType::Scalar)];
        assert_eq!(pointers(&plan.ports[0][0]), expected);
        assert_eq!(pointers(&plan.ports[1][0]), expected);
        assert_eq!(
            (plan.inputs[1][0].key.as_slice(), plan.inputs[2][0].key.as_slice()),
            ([2].as_slice(), [0].as_slice())
        );
        assert_eq!(plan.inputs[2][0].wants, [1]);
        assert!(!plan.ports[0][0].whole_values, "the sink reads columns");
        assert_eq!(plan.chains, [vec![1], vec![2]]);
    }

    #[test]
    fn sink_behind_a_filter_wants_whole_values_of_the_source() {
        let nodes = [source("rides"), operator("filter", (0, 0), "", &[], None), sink("out", (1, 0))];
        assert!(plan(&nodes).unwrap().ports[0][0].whole_values);
    }

    #[test]
    fn reader_keyed_as_the_panes_are_runs_in_the_same_task() {
        let mut nodes = vec![
            source("rides"),
            operator("count", (0, 0), "/city", &[], Some(&["/key"])),
            operator("surge", (1, 0), "/key", &[], Some(&["/city"])),
            operator("other", (1, 0), "/city", &[], Some(&["/x"])),
        ];
        nodes[1].ports[0].keyed_by = vec!["/key".into()];
        nodes[1].ports[0].columns.as_mut().unwrap().fields.push(Field::new("/city", ValueType::Int));
        assert_eq!(plan(&nodes).unwrap().chains, [vec![1, 2], vec![3]]);
        nodes[2].parallelism = 2;
        assert_eq!(plan(&nodes).unwrap().chains, [vec![1], vec![2], vec![3]]);
        nodes[2].parallelism = 1;
        nodes[2].inputs[0] = Input { from: (1, 0), broadcast: true, ..Input::default() };
        assert_eq!(plan(&nodes).unwrap().chains, [vec![1], vec![2], vec![3]], "what goes to all tasks is sent");
    }

    #[test]
    fn column_that_is_not_there_is_named_with_those_that_are() {
        let nodes = [
            source("rides"),
            operator("count", (0, 0), "/city", &[], Some(&["/key"])),
            operator("surge", (1, 0), "/city", &[], Some(&[])),
        ];
        let error = plan(&nodes).unwrap_err().to_string();
        assert_eq!(error, "`surge` reads `/city`, which is no column of `count`; it has `/key`");
    }

    #[test]
    fn rows_that_take_others_back_come_from_whoever_sends_or_passes_them_on() {
        let mut nodes = vec![
            source("rides"),
            operator("filter", (0, 0), "", &[], None),
            operator("count", (1, 0), "/city", &[], Some(&["/key"])),
            operator("filter again", (1, 0), "", &[], None),
        ];
        assert!((0..4).all(|node| !may_retract(&nodes, (node, 0))));
        nodes[1].ports[0].retracts = true;
        assert_eq!([0, 1, 2, 3].map(|node| may_retract(&nodes, (node, 0))), [false, true, false, true]);
    }

    #[test]
    fn cycle_is_told_in_the_direction_of_the_data() {
        let nodes = [operator("a", (1, 0), "", &[], None), operator("b", (0, 0), "", &[], None)];
        assert_eq!(plan(&nodes).unwrap_err().to_string(), "the job has a cycle: a → b → a");
    }
}
