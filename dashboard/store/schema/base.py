"""What the definitions of all tables share."""

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData

LARGE = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows only in an INTEGER, which has 64 bits there

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def id_column() -> Column[int]:
    """The primary key `id`."""
    return Column("id", Integer, primary_key=True)


def reference(table: str, name: str | None = None, *, key: bool = False, null: bool = False) -> Column[int]:
    """A foreign key to the table's id, named after the table unless `name` is given; `key`: of the primary key."""
    return Column(name or f"{table}_id", Integer, ForeignKey(f"{table}.id"), nullable=null, primary_key=key)
