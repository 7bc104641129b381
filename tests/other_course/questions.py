"""What the labs of a course on statistics ask: `check("standardize", standardize)`."""

from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Mistake,
    Question,
    Request,
    checker,
    edit,
    normal,
)


def standardize(table):
    """Give every column of a table the mean 0 and the standard deviation 1."""
    return (table - table.mean(0)) / table.std(0)


def correlation(table):
    """Return the correlations between the columns of a table."""
    z = standardize(table)
    return z.T @ z / (len(table) - 1)


def _table(draw):
    """Draw a table whose columns differ in place and scale."""
    mean, scale = normal(draw, 2, draw.columns)
    table = mean + (1 + scale.abs()) * normal(draw, draw.rows, draw.columns)
    return Request((table,))


TABLES = Battery(
    FUNCTION,
    _table,
    {"rows": Axis("rows", least=3, long=1100), "columns": Axis("columns", least=2)},
    leaves_out={
        "zero": "a deviation needs several rows, and a table a column",
        "one": "a deviation needs several rows, and a correlation two columns",
        "in front": "a table has two axes",
    },
)


def _has_a_row_for_each_case(request, reply, reference):
    """Tell that rows were compared, by whatever formula."""
    return len(reply.outputs[0]) == len(request.inputs[0])


STANDARDIZE = Question(
    name="standardize",
    reference=standardize,
    use=lambda answer, table: answer(table),
    battery=TABLES,
    requirements={"unchanged": "leave the table that you are given as it is"},
    properties=(
        TABLES.numbers("the columns are standardized", 1),
        TABLES.edges(1),
        TABLES.manners(1, checks=("unchanged",)),
    ),
    mistakes=(
        Mistake(
            "divided by the variance",
            "The standard deviation is the square root of the variance.",
            made_by=edit(standardize, "std(0)", "var(0)"),
        ),
        Mistake(
            "N where N - 1 is meant",
            "This course divides by N - 1, as `table.std(0)` does.",
            made_by=edit(standardize, "std(0)", "std(0, correction=0)"),
        ),
        Mistake(
            "rows, where columns are meant",
            "A column holds all values of a variable: `table.mean(0)` is its mean.",
            made_by=edit(standardize, "mean(0)", "mean(1, keepdim=True)")
            & edit(standardize, "std(0)", "std(1, keepdim=True)"),
        ),
        *ANYWHERE,
    ),
)

CORRELATION = Question(
    name="correlation",
    reference=correlation,
    use=lambda answer, table: answer(table),
    battery=TABLES,
    properties=(TABLES.numbers("all correlations", 2), TABLES.edges(1)),
    mistakes=(
        Mistake(
            "covariance, where the correlation is meant",
            "Standardize the columns first, so that their scales no longer matter.",
            made_by=edit(correlation, "standardize(table)", "table - table.mean(0)"),
        ),
        Mistake(
            "rows compared, not columns",
            "A table with D columns has D x D correlations.",
            made_by=edit(correlation, "z.T @ z", "z @ z.T"),
            sign=_has_a_row_for_each_case,
        ),
        *ANYWHERE,
    ),
    stand_ins={"standardize": standardize},
)

QUESTIONS = {question.name: question for question in (STANDARDIZE, CORRELATION)}
check = checker(QUESTIONS)
